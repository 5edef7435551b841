"""`check_spout`: checks that the committed batches of a spout contain each row of its source once, despite kills."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from trident_py.conformance.child_process import serve
from trident_py.conformance.children import Nursery
from trident_py.conformance.experiments import Experiment, checked, ensure_function, every
from trident_py.conformance.report import Findings, Report
from trident_py.conformance.spout_play import SpoutPlay, SpoutSubject
from trident_py.interfaces.spouts import Replay
from trident_py.spark.forked import forget_connections
from trident_py.spark.session import session_if_any
from trident_py.spouts.adapting import AnySpout, as_trident_spout


def check_spout(make_spout: Callable[[], AnySpout], read_source: Callable[[], Sequence[Any]]) -> Report:
    """Check that each row of a source is in one committed batch, despite kills.

    Leaders of a topology read the source from its beginning to its end, repeatedly. They are killed before, after and
    at each line of each call. Batches fail and come again, and successes are reported late. Spark is needed only by
    spouts that emit DataFrames; partitions are read in this process, not in tasks.

    Args:
        make_spout: makes the spout; called in each process.
        read_source: returns the rows of the source, in order, with all or the first fields of the spout's rows. Only
            the first batches are compared.

    Returns:
        The report. A spout with ``Replay.NON_TRANSACTIONAL`` promises only that transactions complete.
    """
    ensure_function("check_spout", make_spout, "a spout")
    findings = Findings()
    with Nursery.open(
        partial(serve, make=partial(SpoutSubject, make_spout, session_if_any())), forget_connections
    ) as nursery:
        spout = as_trident_spout(make_spout())  # after the fork: it may have threads, which a forked process lacks
        play = SpoutPlay(nursery, findings, read_source=read_source, replay=spout.replay, ordered=spout.in_order)
        complete = checked(play, EXPERIMENTS if spout.replay is not Replay.NON_TRANSACTIONAL else EXPERIMENTS[:1])
    promises = {Replay.OPAQUE: "each row in one committed batch", Replay.NON_TRANSACTIONAL: "none"}
    return findings.report("spout", promises.get(spout.replay, ""), complete=complete)


def straight(play: SpoutPlay) -> None:
    """Process the source without failures."""
    play.to_the_end()


def each_fails(play: SpoutPlay) -> None:
    """Fail the first attempt of each transaction after its emission."""
    child = play.leading()
    for txid in (1, 2, 3):
        if play.define(child, txid):
            play.emit(child, txid)
            play.define(child, txid)
            play.commit(child, txid, play.emit(child, txid))
            play.success(child, txid)
    play.to_the_end()


def ahead(play: SpoutPlay) -> None:
    """Emit three transactions before the first is committed; it fails, and all come again."""
    child = play.leading()
    known = [txid for txid in (1, 2, 3) if play.define(child, txid) and play.emit(child, txid)]
    for txid in known:
        play.define(child, txid)
        play.commit(child, txid, play.emit(child, txid))
    for txid in known:
        play.success(child, txid)
    play.to_the_end()


def taken_over(play: SpoutPlay) -> None:
    """Kill the leader with two emitted transactions, and the next one after it has committed the first of them."""
    child = play.leading()
    for txid in (1, 2):
        if play.define(child, txid):
            play.emit(child, txid)
    play.crash(child)
    child = play.take_over()
    if play.define(child, 1):
        play.commit(child, 1, play.emit(child, 1))
    play.crash(child)
    play.take_over()
    play.to_the_end()


def announced(play: SpoutPlay) -> None:
    """Kill the leader before it commits the second batch, which comes again unchanged."""
    child = play.leading()
    if play.define(child, 1):
        play.commit(child, 1, play.emit(child, 1))
    if play.define(child, 2):
        play.announce(2, play.emit(child, 2))
    play.crash(child)
    play.take_over()
    play.to_the_end()


def late(play: SpoutPlay) -> None:
    """Pause a leader while another one continues to the end; then resume it."""
    play.finish()
    play.wake()


EXPERIMENTS: Sequence[Experiment[SpoutPlay]] = (
    Experiment(
        scenario=straight,
        focus=lambda calls: every("make", "define", "emit", "commit", "success")(calls)[:9],
        again=True,
    ),
    Experiment(scenario=each_fails, focus=lambda calls: every("define", "emit")(calls)[2:4]),
    Experiment(scenario=ahead, focus=lambda calls: every("define", "emit", "commit")(calls)[2:8]),
    Experiment(scenario=taken_over, focus=lambda calls: every("make", "define", "emit", "commit")(calls)[3:9]),
    Experiment(scenario=announced, focus=lambda calls: every("define", "emit")(calls)[4:6]),
    Experiment(scenario=straight, focus=lambda calls: every("success", "commit")(calls)[:2], resume=late),
)
