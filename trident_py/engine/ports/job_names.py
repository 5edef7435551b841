"""How the Spark jobs of a leadership are called: by tags, which find them, and descriptions, which Spark's UI shows."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from coordinators.values.attempt import TransactionAttempt


@frozen
class JobNames:
    """Names jobs.

    Attributes:
        topology: whose jobs they are.
        epoch: of which leadership.
    """

    topology: str
    epoch: int

    def tag(self, attempt: TransactionAttempt) -> str:
        """Return what the jobs that an attempt has for itself are found by."""
        return f"trident:{self.topology}:{self.epoch}:{attempt}"

    def shared_tag(self, attempts: Sequence[TransactionAttempt]) -> str:
        """Return what a job that these attempts share is found by."""
        return f"{self.tag(attempts[0])}+{len(attempts) - 1}"

    def description(self, attempts: Sequence[TransactionAttempt], what: str) -> str:
        """Say what a job is about, as in ``wordcount: 7:0 → counts``."""
        return f"{self.topology}: {shown_attempts(attempts)} {what}"


def shown_attempts(attempts: Sequence[TransactionAttempt]) -> str:
    """Show one attempt, or a row of them."""
    return str(attempts[0]) if len(attempts) == 1 else f"{attempts[0]} to {attempts[-1]}"
