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

from trident_py.sinks.tables.token import TableToken


def read_token(uuid: str, version_of: Callable[[str], int | None]) -> TableToken | None:
    """Return that of a topology, where ``version_of`` tells a transaction's version; None: it was never here."""
    found = {name: version_of(app_id(uuid, name)) for name in _NAMES}
    if found["fence"] is None:
        return None
    return TableToken.of({name: version or 0 for name, version in found.items()})


def versions(uuid: str, token: TableToken) -> Mapping[str, int]:
    """Return the version of each application transaction."""
    return {app_id(uuid, name): version for name, version in token.numbers().items()}


_NAMES = ("txid", "epoch", "attempt", "rows", "hash", "fence", "sink", "incarnation")


def app_id(uuid: str, name: str = "txid") -> str:
    """Return the name of an application transaction."""
    return f"trident:{uuid}" if name == "txid" else f"trident:{uuid}:{name}"
