"""What the token topic of a sink knows: who leads, and what is committed. Its last committed record counts."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Self

from attrs import frozen

from trident_py.errors import SinkError
from trident_py.sinks.leader_token import LeaderToken

KEY = b"token"
"""Of each record, so that a compacted topic keeps the last one."""
_NAME_CHARS_MAX = 100


@frozen(kw_only=True)
class KafkaToken(LeaderToken):
    """One record of the token topic."""

    @property
    def leadership(self) -> tuple[int, int]:
        """What is greater for a newer leader."""
        return self.incarnation, self.fence

    @classmethod
    def parse(cls, stored: bytes) -> Self:
        """Read it from the value of a record.

        Raises:
            SinkError: it is none of ours.
        """
        try:
            return cls.of(json.loads(stored))
        except (ValueError, KeyError, TypeError) as error:
            raise SinkError(f"the token {stored!r} is none of this library's ({error!r})") from error

    def stored(self) -> bytes:
        """Write it as the value of a record."""
        return json.dumps(self.numbers()).encode()


def transactional_id(uuid: str, topic: str | None) -> str:
    """Return what Kafka fences the producers of a sink by: the same for all leaders, over resets, too."""
    return f"trident-{uuid}-{topic or ''}"


def token_topic(topology: str, uuid: str, topic: str | None) -> str:
    """Return the name of the token topic of a sink."""
    readable = re.sub(r"[^a-zA-Z0-9_-]", "-", f"{topology}-{topic or 'rows'}")[:_NAME_CHARS_MAX]
    return f"_trident-{readable}-{hashlib.sha256(transactional_id(uuid, topic).encode()).hexdigest()[:12]}"
