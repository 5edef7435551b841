"""The real machine, driver and recovery in a simulated world: ZooKeeper, Spark, stores, sources, crashes, virtual time.

What is real: `MasterBatchCoordinator`, `CoordinatorDriver`, `Acker`, `Definitions`, `TridentSpoutCoordinator`,
`recover`, the record and its encoding, `ZooKeeperRecordStore` and the road to an epoch, `Fence` and `MemoryMapState`.
What is simulated: the ZooKeeper session and its servers, what is done with batches (threads and Spark in the product),
the network between them, processes, and time.

    python -m tests.simulation --seeds 1000 [--from 0]     random faults, one world a seed
    python -m tests.simulation --seed 17                   one world again, with its log
    python -m tests.simulation --explore                   every world at small scope, and the mutation gate
"""
