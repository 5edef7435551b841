"""A server that is one process of ours."""

from __future__ import annotations

import signal
import subprocess

from attrs import define, field

_PATIENCE_SECONDS = 120


@define
class ServerProcess:
    """Ends what a subclass has started.

    Attributes:
        process: the server; None: it doesn't run.
    """

    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def kill(self) -> None:
        """End it at once, by SIGKILL; it is gone when this returns."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in order, by SIGTERM."""
        self._end(signal.SIGTERM)

    def close(self) -> None:
        """Kill it, if it runs."""
        self.kill()

    def _end(self, number: int) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(_PATIENCE_SECONDS)
        self.process = None
