"""How often a row counts in each state, from its spouts' replays and its stored data. For ``explain()`` and logs.

| spout, state      | non-transactional | transactional    | opaque               | fenced  | sink    |
|-------------------|-------------------|------------------|----------------------|---------|---------|
| exact             | at-least-once     | exactly-once (1) | exactly-once (1)     | exactly | exactly |
| opaque            | at-least-once     | not exactly-once | exactly-once (1) (2) | exactly | exactly |
| non-transactional | none              | none             | none                 | none    | none    |

(1) unless a leader that was paused in mid-write wakes up: data and txid are not written under a fence. (2) also unless
the process dies in mid-commit and the replay lacks a key that was written.

A sink that keeps no token, as `ForeachBatchSink`, is at-least-once for the first two kinds of spout.

A stream after ``new_values_stream`` carries values of the state before it. So the guarantee of a state that it feeds is
at most that of the first state. If a state counts a replay twice, or loses rows, its new values are wrong everywhere.

A stream after a ``state_query`` is opaque for any spout, because the answer of a state depends on the moment. So is a
stream after a ``window``: the windows that a batch fires depend on when it is committed, and on the order of its rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from trident_py.graph.graph import Graph, Node
from trident_py.graph.output import output_of
from trident_py.interfaces.spouts import Replay
from trident_py.interfaces.states import AT_LEAST_ONCE, UNLESS_PAUSED, StateKind, promised_kind

_PAUSED = UNLESS_PAUSED
_FENCED = "data and commit token change in one atomic step, and older tokens are refused"
_STAGED = (
    "attempts are staged apart, and data and commit token become visible in one atomic step (check_sink verifies it)"
)
_CHECKED = "data and txid are not one atomic step; the leadership is checked before the first"
_RECOVERABLE = "a spout with Replay.EXACT or Replay.OPAQUE"
_FENCING = "SQLiteState, PostgresState, MySQLState, RedisState or a TransactionalSink"


@frozen
class Guarantee:
    """The guarantee of one state.

    Attributes:
        promise: how often a row counts.
        reason: the reason for this promise.
        instead: an exactly-once alternative; empty if it is exactly-once, or depends on the code that the sink calls.
    """

    promise: str
    reason: str = ""
    instead: str = ""

    def __str__(self) -> str:
        return f"{self.promise}: {self.reason}" if self.reason else self.promise

    @property
    def strength(self) -> int:
        """Orders promises by implication: a stronger one is above. A state's own wording is below the exact ones."""
        known = self.promise if self.promise in _PROMISES else _OWN_WORDS
        return _PROMISES.index(known)


_DIES = f"{_PAUSED}, or a process dies in mid-commit and the replay lacks a key that was written"
_OWN_WORDS = "in a state's own words"
_PROMISES = ("no guarantee", "at-least-once", "not exactly-once", _OWN_WORDS, _DIES, _PAUSED, "exactly-once")

_NONE = Guarantee(
    "no guarantee",
    "the spout may lose rows, or give them again in another transaction; no state can tell",
    _RECOVERABLE,
)
_AGAIN = Guarantee(
    AT_LEAST_ONCE,
    "nothing says that its commits compare the txid, and a replay is counted again",
    f"OpaqueMap over the same store, {_FENCING}; or, if its commits do compare the txid, have its factory say so by "
    f"kind = StateKind.TRANSACTIONAL",
)
_MATRIX: dict[tuple[Replay, StateKind | None], Guarantee] = {
    (Replay.EXACT, StateKind.NON_TRANSACTIONAL): _AGAIN,
    (Replay.EXACT, StateKind.TRANSACTIONAL): Guarantee(_PAUSED, _CHECKED),
    (Replay.EXACT, StateKind.OPAQUE): Guarantee(_PAUSED, _CHECKED),
    (Replay.EXACT, StateKind.FENCED): Guarantee("exactly-once", _FENCED),
    (Replay.EXACT, None): Guarantee("exactly-once", _STAGED),
    (Replay.OPAQUE, StateKind.NON_TRANSACTIONAL): _AGAIN,
    (Replay.OPAQUE, StateKind.TRANSACTIONAL): Guarantee(
        "not exactly-once",
        "a replay may have other rows than the attempt that was written in part; exactly-once only if the state keeps "
        "previous values to undo that part, as OpaqueMap does",
        f"OpaqueMap over the same store, {_FENCING}, or a spout with Replay.EXACT",
    ),
    (Replay.OPAQUE, StateKind.OPAQUE): Guarantee(
        _DIES,
        f"a replay starts from the values before its transaction; {_CHECKED}",
    ),
    (Replay.OPAQUE, StateKind.FENCED): Guarantee("exactly-once", f"{_FENCED}; a replay starts from the values before"),
    (Replay.OPAQUE, None): Guarantee("exactly-once", f"{_STAGED}; a replay with other rows is the sink's to undo"),
}
"""The guarantee by the stream's replay and the state's kind; None: a sink."""
_KEPT = Guarantee("exactly-once", f"{_STAGED}; what was committed first stays, also if a replay has other rows")
"""A sink that refuses opaque spouts, after a state whose answer may differ when it is queried again."""
_REPLACED = Guarantee("exactly-once", f"{_STAGED}; a replay also brings the keys that the state has rolled back")
"""A sink that replaces rows by the keys of the state that feeds it."""

_CALLED_AGAIN = Guarantee(
    "at-least-once",
    "it is called again for a transaction whose commit is not on record; exactly-once where what it calls stores "
    "tx.key in the same step as the rows",
)
"""A sink that keeps no token, and passes the transaction to the function that it calls."""


def guarantee(replay: Replay, kind: StateKind | None) -> Guarantee:
    """Return the guarantee for a stream with this ``replay``; ``kind`` is ``None`` for a sink."""
    return _NONE if replay is Replay.NON_TRANSACTIONAL else _MATRIX[replay, kind]


def guarantee_of(node: Node) -> Guarantee:
    """Return the guarantee of the state or sink of ``node``.

    It is at most the guarantee of each state that its rows come from.
    """
    found = _alone(node)
    for each in node.ancestry:
        output = output_of(each)
        if output and (weaker := _alone(each)).strength < found.strength:
            found = Guarantee(
                weaker.promise,
                f"it is fed by the new values of state {output.name!r}, for which no more holds",
                f"SQLiteState or PostgresState for state {output.name!r}",
            )
    return found


def _alone(node: Node) -> Guarantee:
    """Return the guarantee if the states before it are right."""
    replay, output = node.replay, output_of(node)
    if output and output.factory is None and not output.keeps_token and replay is not Replay.NON_TRANSACTIONAL:
        return _CALLED_AGAIN
    if output and output.needs_exact_replays and replay is Replay.OPAQUE:
        return _REPLACED if output.replaces(node.inputs[0]) else _KEPT
    if output is None or output.factory is None:
        return guarantee(replay, None)
    own = output.factory.guarantee
    found, says_more = (
        guarantee(replay, promised_kind(output.factory)),
        own not in (AT_LEAST_ONCE, _PAUSED, "exactly-once"),
    )
    return Guarantee(own) if says_more and not found.instead else found


def warnings(graph: Graph) -> Iterator[str]:
    """Yield one line for each state or sink in which a row may not count exactly once."""
    for node in graph.nodes:
        output = output_of(node)
        if output and (found := guarantee_of(node)).instead:
            kind = "state" if output.factory else "sink"
            behind = " and ".join([*(f"spout {spout!r}" for spout in node.spouts), *dict.fromkeys(node.unrepeatable)])
            where = f"topology {graph.topology!r}: {kind} {output.name!r} behind {behind}"
            yield f"{where}: {found}; use {found.instead}, instead"
