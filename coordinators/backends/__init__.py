"""Where records and elections live: ZooKeeper, or this process's memory."""
