"""Sums orders from Parquet files in a bucket by item, in SQLite (docs/how-to/whole-files.md).

Set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION before. The names of new files must rise, as those of files
that begin with their time do.

::

    python examples/bucket_orders.py s3://shop sums.db
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from trident_py import FileSpout, SQLiteState, Sum, TridentTopology


def sums(bucket: str, path: str, options: Mapping[str, str] | None = None) -> TridentTopology:
    """Sum the amounts in all files below ``orders``; the names of those that were read are kept below ``names``."""
    topology = TridentTopology("orders")
    orders = FileSpout(
        f"{bucket}/orders/*.parquet",
        format="parquet",
        schema="item string, amount bigint",
        storage_options=options,
        order="name",
        directory=f"{bucket}/names",
    )
    (
        topology.new_stream("orders", orders)
        .group_by("item")
        .persistent_aggregate(SQLiteState(path, table="sums"), Sum("amount"), "amount")
    )
    return topology


if __name__ == "__main__":
    with sums(sys.argv[1], sys.argv[2]).start() as query:
        query.await_termination()
