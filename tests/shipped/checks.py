"""All that is shipped, by name, and how each is checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.shipped import sinks, spouts, states
from trident_py.testing import Report

CHECKS: dict[str, Callable[[Path], Report]] = {
    "FileSink-parquet": sinks.parquet_files,
    "FileSink-json": sinks.json_files,
    "DeltaSink": sinks.delta,
    "DeltaSink-merge": sinks.delta_by_key,
    "DeltaSink-changes": sinks.delta_changes,
    "IcebergSink": sinks.iceberg,
    "SQLSink-sqlite": sinks.sqlite,
    "SQLSink-sqlite-upsert": sinks.sqlite_by_key,
    "SQLSink-sqlite-changes": sinks.sqlite_changes,
    "SQLSink-postgres": sinks.postgres,
    "SQLSink-mysql": sinks.mysql,
    "KafkaSink": sinks.kafka,
    "ForeachBatchSink": sinks.foreach_batch,
    "SQLiteState": states.sqlite,
    "SQLiteState-shards": states.sqlite_shards,
    "PostgresState": states.postgres,
    "MySQLState": states.mysql,
    "RedisState": states.redis,
    "FixedBatchSpout": spouts.fixed,
    "FileSpout": spouts.files,
    "FileSpout-parquet": spouts.parquet,
    "FileSpout-avro": spouts.avro,
    "FileSpout-objects": spouts.objects,
    "DataFrameSpout": spouts.dataframe,
    "DataSourceSpout": spouts.data_source,
    "DataSourceSpout-simple": spouts.simple_data_source,
    "SQLSpout": spouts.sql,
    "RedisStreamsSpout": spouts.redis_streams,
    "NATSSpout": spouts.nats,
    "PostgresChangesSpout": spouts.postgres_changes,
    "RabbitMQSpout": spouts.rabbitmq,
    "HttpSpout": spouts.http,
    "DeltaSpout": spouts.delta,
    "KafkaSpout": spouts.kafka,
}
"""Each is given an empty directory, and has a server of its own where it needs one."""
