"""How a Delta table keeps the token: as versions of application transactions, all written anew by each commit.

For the topology with the uuid ``U`` they are::

    trident:U              txid of the last transaction; 0: none
    trident:U:epoch        and what attempt it was, of which leader
    trident:U:attempt
    trident:U:rows         how many rows it has, and a hash of them
    trident:U:hash
    trident:U:fence        the epoch of the newest leader
    trident:U:sink         a number that the sink of this leader has drawn
    trident:U:incarnation  of the topology

A commit of Delta is refused where one of them has changed since the table was looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from coordinators.attempt import CommitToken
from coordinators.fingerprint import Fingerprint
from trident_py.sinks.tables.token import TableToken


def read_token(uuid: str, version_of: Callable[[str], int | None]) -> TableToken | None:
    """Return that of a topology, where ``version_of`` tells a transaction's version; None: it was never here."""
    found = {name: version_of(_app_id(uuid, name)) for name in _NAMES}
    if found["fence"] is None:
        return None
    known = {name: version or 0 for name, version in found.items()}
    return TableToken(
        incarnation=known["incarnation"],
        fence=known["fence"],
        sink=known["sink"],
        commit=CommitToken(known[""], known["epoch"], known["attempt"]) if known[""] else None,
        content=Fingerprint(known["rows"], known["hash"]),
    )


def versions(uuid: str, token: TableToken) -> Mapping[str, int]:
    """Return the version of each application transaction."""
    commit = token.commit or CommitToken(0, 0, 0)
    told = (
        commit.txid,
        commit.epoch,
        commit.attempt_id,
        token.content.rows,
        token.content.sum,
        token.fence,
        token.sink,
        token.incarnation,
    )
    return {_app_id(uuid, name): version for name, version in zip(_NAMES, told, strict=True)}


_NAMES = ("", "epoch", "attempt", "rows", "hash", "fence", "sink", "incarnation")


def _app_id(uuid: str, name: str) -> str:
    return f"trident:{uuid}:{name}" if name else f"trident:{uuid}"
