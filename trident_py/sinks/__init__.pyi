from trident_py.interfaces.sinks import CommitToken as CommitToken
from trident_py.interfaces.sinks import SinkTransaction as SinkTransaction
from trident_py.interfaces.sinks import TopologyKey as TopologyKey
from trident_py.interfaces.sinks import TransactionalSink as TransactionalSink
from trident_py.interfaces.sinks import TransactionKey as TransactionKey
from trident_py.sinks.delta.sink import DeltaSink as DeltaSink
from trident_py.sinks.files.sink import FileSink as FileSink
from trident_py.sinks.foreach_batch import ForeachBatchSink as ForeachBatchSink
