"""Coordination: stores of records and elections of leaders, in ZooKeeper or in the memory of this process."""
