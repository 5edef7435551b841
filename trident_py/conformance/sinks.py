"""`check_sink`: checks that a `TransactionalSink` is exactly-once, by killing and pausing it everywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from pyspark.sql.types import StructType

from trident_py.conformance.child_process import serve
from trident_py.conformance.children import Nursery
from trident_py.conformance.experiments import checked, ensure_function
from trident_py.conformance.report import Findings, Report
from trident_py.conformance.sample_rows import sample_batches
from trident_py.conformance.sink_experiments import EXPERIMENTS
from trident_py.conformance.sink_play import TOPOLOGY, SinkPlay, SinkSubject
from trident_py.interfaces.sinks import TransactionalSink
from trident_py.rows.schema import schema_of
from trident_py.spark.forked import Batches, forget_connections, jvm_process
from trident_py.spark.session import topology_session

ReadRows: TypeAlias = Callable[[], Sequence[Sequence[Any]]]


def check_sink(
    make_sink: Callable[[], TransactionalSink[Any]], read_rows: ReadRows, *, schema: str | StructType
) -> Report:
    """Check that a sink is exactly-once.

    Leaders of a topology write to one store, each in a separate process. They are killed before, after and at each line
    of each call, and paused there while another one takes over. Answers are lost, and batches come again as other
    attempts; if they may have been committed, with the same rows. A reader looks at the store in between. The check
    uses the active Spark session; without one it builds a local one.

    Args:
        make_sink: makes the sink; called in each process, always for the same store, which is empty at first.
        read_rows: returns the rows that a reader of the store sees: all rows, in any order, each a tuple in the order
            of ``schema``.
        schema: the fields of the rows that the sink receives.

    Returns:
        The report. ``report.ok`` is True if no rule was broken; ``str(report)`` has all details. A sink that declares
        that it keeps no token (``keeps_token = False``) may duplicate replayed rows, but must lose none.

    Raises:
        TopologyError: the store is not empty, or ``make_sink`` is no function.
    """
    ensure_function("check_sink", make_sink, "a sink")
    fields = schema_of(schema)
    findings = Findings()
    with topology_session(TOPOLOGY.name, None) as spark:
        jvm = jvm_process(spark)
        make = partial(SinkSubject, make_sink, Batches(spark, fields, sample_batches(fields)))
        with Nursery.open(partial(serve, make=make), forget_connections) as nursery:
            play = SinkPlay(nursery, findings, [jvm], schema=fields, read_rows=read_rows)
            play.ensure_empty()
            complete = checked(play, EXPERIMENTS)
    return findings.report("sink", "at-least-once" if play.needs.at_least_once else "", complete=complete)
