"""How an Iceberg table keeps the token: as one of its properties, which is set together with each snapshot of ours.

For the topology with the uuid ``U`` it is ``trident.U``, a JSON object. Snapshots carry it, too, in their summaries,
for people: they expire, and snapshots of others come between, so nothing is decided by those.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from attrs import frozen

from trident_py.errors import SinkError
from trident_py.interfaces.sinks import CommitToken
from trident_py.sinks.tables.token import TableToken


@frozen
class StoredToken:
    """A token as a table has it.

    Attributes:
        token: itself.
        snapshot: the id of the snapshot that it came with.
    """

    token: TableToken
    snapshot: int

    @classmethod
    def read(cls, uuid: str, properties: Mapping[str, str]) -> StoredToken | None:
        """Return that of a topology; None: it was never here.

        Raises:
            SinkError: somebody has changed it.
        """
        text = properties.get(_name(uuid))
        if text is None:
            return None
        try:
            known = json.loads(text)
            return cls(TableToken.of(known), known["snapshot"])
        except (ValueError, TypeError, KeyError) as error:
            raise SinkError(f"the table's property {_name(uuid)!r} is damaged: {text!r}") from error

    def properties(self, uuid: str) -> dict[str, str]:
        """Return what the table has to have."""
        return {_name(uuid): json.dumps({**self.token.numbers(), "snapshot": self.snapshot})}


def summary(uuid: str, token: TableToken) -> dict[str, str]:
    """Return what a snapshot says of itself."""
    numbers = token.numbers()
    told = {f"trident.{name}": str(numbers[name]) for name in ("txid", "epoch", "attempt", "fence")}
    return {"trident.topology": uuid, **told}


def removed_name(uuid: str) -> str:
    """Return the name of the property by which an operator says of which transaction the rows were removed."""
    return f"{_name(uuid)}.removed"


def shown_commit(commit: CommitToken) -> str:
    """Return what names one commit of a transaction, and none that follows it."""
    return f"{commit.txid}:{commit.epoch}:{commit.attempt_id}"


def _name(uuid: str) -> str:
    return f"trident.{uuid}"
