"""What the token topic of a sink knows: who leads, and what is committed. Its last committed record counts."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Self

from attrs import frozen

from coordinators.attempt import CommitToken
from trident_py.errors import SinkError

KEY = b"token"
"""Of each record, so that a compacted topic keeps the last one."""
_NAME_CHARS_MAX = 100


@frozen(kw_only=True)
class KafkaToken:
    """One record of the token topic.

    Attributes:
        incarnation: the topology's.
        fence: the epoch of the newest leader.
        sink: tells its sink from another one of the same leader.
        commit: the last commit of this incarnation; None: there was none.
    """

    incarnation: int
    fence: int
    sink: int
    commit: CommitToken | None = None

    @property
    def leadership(self) -> tuple[int, int]:
        """What is greater for a newer leader."""
        return self.incarnation, self.fence

    @property
    def txid(self) -> int:
        """The last transaction that is committed; 0: none."""
        return self.commit.txid if self.commit else 0

    @classmethod
    def parse(cls, stored: bytes) -> Self:
        """Read it from the value of a record.

        Raises:
            SinkError: it is none of ours.
        """
        try:
            found = json.loads(stored)
            return cls(
                incarnation=found["incarnation"],
                fence=found["fence"],
                sink=found["sink"],
                commit=CommitToken(found["txid"], found["epoch"], found["attempt"]) if found["txid"] else None,
            )
        except (ValueError, KeyError, TypeError) as error:
            raise SinkError(f"the token {stored!r} is none of this library's ({error!r})") from error

    def stored(self) -> bytes:
        """Write it as the value of a record."""
        commit = self.commit or CommitToken(0, 0, 0)
        facts = {
            "incarnation": self.incarnation,
            "fence": self.fence,
            "sink": self.sink,
            "txid": commit.txid,
            "epoch": commit.epoch,
            "attempt": commit.attempt_id,
        }
        return json.dumps(facts).encode()


def transactional_id(uuid: str, topic: str | None) -> str:
    """Return what Kafka fences the producers of a sink by: the same for all leaders, over resets, too."""
    return f"trident-{uuid}-{topic or ''}"


def token_topic(topology: str, uuid: str, topic: str | None) -> str:
    """Return the name of the token topic of a sink."""
    readable = re.sub(r"[^a-zA-Z0-9_-]", "-", f"{topology}-{topic or 'rows'}")[:_NAME_CHARS_MAX]
    return f"_trident-{readable}-{hashlib.sha256(transactional_id(uuid, topic).encode()).hexdigest()[:12]}"
