"""Names of the Spark jobs of a leadership: tags identify them, and Spark's UI shows the descriptions."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from coordinators.values.attempt import TransactionAttempt, shown_attempts


@frozen
class JobNames:
    """Names jobs.

    Attributes:
        topology: to which the jobs belong.
        epoch: of the leadership.
    """

    topology: str
    epoch: int

    def tag(self, attempt: TransactionAttempt) -> str:
        """Return the tag of the jobs that belong to one attempt."""
        return f"trident:{self.topology}:{self.epoch}:{attempt}"

    def shared_tag(self, attempts: Sequence[TransactionAttempt]) -> str:
        """Return the tag of a job that these attempts share."""
        return f"{self.tag(attempts[0])}+{len(attempts) - 1}"

    def description(self, attempts: Sequence[TransactionAttempt], what: str) -> str:
        """Return the description of a job, such as ``wordcount: 7:0 → counts``."""
        return f"{self.topology}: {shown_attempts(attempts)} {what}"
