"""How an Iceberg table keeps the token: as one of its properties, which is set together with each snapshot of ours.

For the topology with the uuid ``U`` it is ``trident.U``, a JSON object. Snapshots carry it, too, in their summaries,
for people: they expire, and snapshots of others come between, so nothing is decided by those.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from attrs import frozen

from coordinators.attempt import CommitToken
from coordinators.fingerprint import Fingerprint
from trident_py.errors import SinkError
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
            token = TableToken(
                incarnation=known["incarnation"],
                fence=known["fence"],
                sink=known["sink"],
                commit=CommitToken(known["txid"], known["epoch"], known["attempt"]) if known["txid"] else None,
                content=Fingerprint(known["rows"], known["hash"]),
            )
            return cls(token, known["snapshot"])
        except (ValueError, TypeError, KeyError) as error:
            raise SinkError(f"the table's property {_name(uuid)!r} is damaged: {text!r}") from error

    def properties(self, uuid: str) -> dict[str, str]:
        """Return what the table has to have."""
        token, commit = self.token, self.token.commit or CommitToken(0, 0, 0)
        known = {
            "txid": commit.txid,
            "epoch": commit.epoch,
            "attempt": commit.attempt_id,
            "rows": token.content.rows,
            "hash": token.content.sum,
            "fence": token.fence,
            "sink": token.sink,
            "incarnation": token.incarnation,
            "snapshot": self.snapshot,
        }
        return {_name(uuid): json.dumps(known)}


def summary(uuid: str, token: TableToken) -> dict[str, str]:
    """Return what a snapshot says of itself."""
    commit = token.commit or CommitToken(0, 0, 0)
    return {
        "trident.topology": uuid,
        "trident.txid": str(commit.txid),
        "trident.epoch": str(commit.epoch),
        "trident.attempt": str(commit.attempt_id),
        "trident.fence": str(token.fence),
    }


def _name(uuid: str) -> str:
    return f"trident.{uuid}"
