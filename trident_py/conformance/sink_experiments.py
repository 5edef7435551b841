"""The experiments with a sink, the simplest first, so that the first history that breaks a rule is short."""

from __future__ import annotations

from collections.abc import Sequence

from trident_py.conformance.experiments import Experiment, every, nowhere
from trident_py.conformance.sink_play import SinkPlay


def begun(play: SinkPlay) -> None:
    """Start the first leader on an empty store."""
    play.leading()


def one(play: SinkPlay) -> None:
    """Commit one transaction, as in most cases."""
    leader, txid = play.leading(), play.next
    prepared = play.prepared(leader, txid)
    play.look()
    play.commit(leader, prepared)
    play.look()


def taken_over(play: SinkPlay) -> None:
    """Kill a leader with a prepared transaction; another leader commits it."""
    leader, txid = play.leading(), play.next
    play.prepared(leader, txid)
    play.crash(leader)
    play.committed(play.take_over(), txid)


def committed_and_taken_over(play: SinkPlay) -> None:
    """Kill a leader after its commit; the next one commits the transaction again, as other outputs lack it."""
    leader, txid = play.leading(), play.next
    play.commit(leader, play.prepared(leader, txid))
    play.crash(leader)
    play.committed(play.committed(play.take_over(), txid), txid + 1)


def aborted(play: SinkPlay) -> None:
    """Abort an attempt, and commit the next one."""
    leader, txid = play.leading(), play.next
    play.abort(leader, play.prepared(leader, txid).tx)
    play.committed(leader, txid)


def given_up_again(play: SinkPlay) -> None:
    """Repeat a committed transaction, because another output lacks it, and abort that attempt."""
    leader, txid = play.leading(), play.next
    play.commit(leader, play.prepared(leader, txid))
    play.abort(leader, play.prepared(leader, txid).tx)
    play.look()
    play.committed(leader, txid)


def unreadable(play: SinkPlay) -> None:
    """Fail to read a batch, because a user's function before the sink raises; the next attempt works."""
    leader, txid = play.leading(), play.next
    prepared = play.prepare(leader, txid, fails=True)
    play.abort(leader, prepared.tx if prepared else play.last_tx(leader))
    play.committed(leader, txid)


def answer_lost(play: SinkPlay) -> None:
    """Lose the answer of a commit; the transaction comes again, as the next attempt of the same leader."""
    leader, txid = play.leading(), play.next
    play.commit(leader, play.prepared(leader, txid))
    play.committed(leader, txid)
    play.look()
    play.committed(leader, txid + 1)


def side_by_side(play: SinkPlay) -> None:
    """Prepare two transactions before the first is committed."""
    leader, txid = play.leading(), play.next
    first, second = play.prepared(leader, txid), play.prepared(leader, txid + 1)
    play.commit(leader, first)
    play.look()
    play.commit(leader, second)


def failed_side_by_side(play: SinkPlay) -> None:
    """Fail the first of two transactions, so that both are aborted and come again."""
    leader, txid = play.leading(), play.next
    first, second = play.prepared(leader, txid), play.prepared(leader, txid + 1)
    again = play.prepared(leader, txid)
    play.abort(leader, first.tx)
    play.abort(leader, second.tx)
    play.commit(leader, again)
    play.committed(leader, txid + 1)


def empty(play: SinkPlay) -> None:
    """Commit a transaction without rows."""
    leader, txid = play.leading(), play.next
    play.sizes[txid] = 0
    play.commit(leader, play.prepared(leader, txid))
    play.crash(leader)
    play.committed(play.take_over(), txid + 1)


def started_again(play: SinkPlay) -> None:
    """Lead again with the same process and object."""
    leader, txid = play.leading(), play.next
    play.commit(leader, play.prepared(leader, txid))
    play.prepared(leader, txid + 1)
    play.lead_again(leader)
    play.committed(leader, txid + 1)


def left_out(play: SinkPlay) -> None:
    """Leave a transaction out that was never begun, as a parked one whose batch fails in another output."""
    leader, txid = play.leading(), play.next
    play.committed(leader, txid)
    if play.needs.at_least_once or play.can_leave_out(leader, txid + 1) is False:
        return
    play.leave_out(txid + 1)
    play.committed(play.committed(leader, txid + 1), txid + 2)
    play.look()


def left_out_after_its_commit(play: SinkPlay) -> None:
    """Leave a committed transaction out, because another output can't commit it; or be refused."""
    leader, txid = play.leading(), play.next
    play.commit(leader, play.prepared(leader, txid))
    can = None if play.needs.at_least_once else play.can_leave_out(leader, txid)
    if can:
        play.leave_out(txid)
    elif can is False:
        play.insist(leader, txid)
    play.committed(play.committed(leader, txid), txid + 1)
    play.look()


def replaced(play: SinkPlay) -> None:
    """Commit a transaction twice, the second time with other rows for the same keys, as new values of a state come."""
    leader, txid = play.leading(), play.next
    if not play.needs.replaces_by or play.needs.at_least_once:
        return
    play.replace(txid)
    play.commit(leader, play.prepared(leader, txid))
    play.committed(play.committed(leader, txid), txid + 1)
    play.look()


def overtaken(play: SinkPlay) -> None:
    """Pause a new leader in its recovery, while the old one has a prepared transaction."""
    leader, txid = play.leading(), play.next
    play.waiting = leader, play.prepared(leader, txid)
    play.take_over()
    play.waiting = None
    play.committed(play.leading(), txid)


# --- when a paused leader continues -----------------------------------------------------------------------------------


def before_replay(play: SinkPlay) -> None:
    """Recover with a new leader, which does nothing else; then the old one tries to commit its prepared transaction."""
    play.take_over()
    play.wake_zombie(commits=True)
    play.look()
    play.redo()


def during_replay(play: SinkPlay) -> None:
    """Prepare the transaction with the new leader, before the old one continues."""
    leader = play.take_over()
    prepared = play.prepare(leader, play.first)
    play.wake_zombie()
    if prepared is not None:
        play.commit(leader, prepared)
    play.redo()


def after_replay(play: SinkPlay) -> None:
    """Commit the transaction with the new leader, before the old one continues; commit another one afterwards."""
    play.take_over()
    play.redo()
    play.look()
    play.wake_zombie()
    play.look()
    play.committed(play.leading(), play.next)


def after_commit(play: SinkPlay) -> None:
    """Commit with the older leader, while the new one is paused in its recovery."""
    play.overtake()
    play.redo()


EXPERIMENTS: Sequence[Experiment[SinkPlay]] = (
    Experiment(scenario=begun, focus=nowhere),
    Experiment(scenario=one, focus=every("prepare", "commit"), again=True),
    Experiment(scenario=answer_lost, focus=lambda calls: every("commit")(calls)[1:2]),
    Experiment(scenario=empty, focus=lambda calls: every("commit", "recover")(calls)[:2]),
    Experiment(scenario=taken_over, focus=every("make", "recover"), again=True),
    Experiment(scenario=committed_and_taken_over, focus=lambda calls: every("recover", "commit")(calls)[1:3]),
    Experiment(scenario=aborted, focus=every("abort"), again=True),
    Experiment(scenario=given_up_again, focus=every("abort")),
    Experiment(scenario=unreadable, focus=lambda calls: every("prepare", "abort")(calls)[:2]),
    Experiment(scenario=side_by_side, focus=lambda calls: every("commit")(calls)[1:2]),
    Experiment(scenario=failed_side_by_side, focus=every("abort")),
    Experiment(scenario=started_again, focus=every("recover")),
    Experiment(scenario=one, focus=every("prepare", "commit"), resume=before_replay),
    Experiment(scenario=one, focus=every("prepare"), resume=during_replay),
    Experiment(scenario=one, focus=every("commit"), resume=after_replay),
    Experiment(scenario=aborted, focus=every("abort"), resume=during_replay),
    Experiment(scenario=taken_over, focus=every("recover"), resume=during_replay),
    Experiment(scenario=overtaken, focus=every("recover"), resume=after_commit),
    Experiment(scenario=left_out, focus=lambda calls: every("can_park", "commit")(calls)[1:3]),
    Experiment(scenario=replaced, focus=lambda calls: every("commit")(calls)[:2]),
    Experiment(scenario=left_out_after_its_commit, focus=lambda calls: every("can_park", "commit")(calls)[1:3]),
)
