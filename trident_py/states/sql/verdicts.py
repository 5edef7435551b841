"""The meaning of a database's errors for a batch, by the codes of its server and its library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from attrs import field, frozen

from trident_py.errors import FailedException, StateError, StoreBusyException
from trident_py.interfaces.verdict import UnknownErrors, Verdict

Code: TypeAlias = int | str | None


@contextmanager
def ending_at_refusals() -> Iterator[None]:
    """Convert the error of a refused value into one that ends the topology: a state would compute the same value again.

    Raises:
        StateError: a value was refused.
    """
    try:
        yield
    except StoreBusyException:
        raise
    except FailedException as error:
        raise StateError(str(error)) from error


@frozen(kw_only=True)
class ErrorTable:
    """The error codes of one database.

    Attributes:
        verdicts: the verdict by code. An error of another code is retried.
        ways_out: the fix by code.
        unknown: the errors that occurred and have no verdict.
    """

    verdicts: Mapping[Code, Verdict]
    ways_out: Mapping[Code, str]
    unknown: UnknownErrors = field(factory=UnknownErrors, eq=False, repr=False)

    def verdict(self, codes: Sequence[Code]) -> Verdict | None:
        """Return the verdict of the first known code of ``codes``; None: no code is known."""
        return next((self.verdicts[code] for code in codes if code in self.verdicts), None)

    def error(self, where: str, said: str, codes: Sequence[Code], way_out: str = "") -> FailedException | StateError:
        """Return the error to raise.

        Args:
            where: names the topology, the attempt and the table.
            said: the message of the database.
            codes: the codes of the error, the most specific one first.
            way_out: the fix to name, instead of the one known for the code.
        """
        verdict = self.verdict(codes)
        if verdict is None:
            self.unknown.came(codes[0], f"{where}: {said} (error {codes[0]})")
        if verdict in (None, Verdict.COMES_AGAIN):
            return StoreBusyException(f"{where}: {said}")
        way = way_out or next((self.ways_out[code] for code in codes if code in self.ways_out), "")
        kind = FailedException if verdict is Verdict.THIS_BATCH else StateError
        return kind(f"{where}: {said}; {f'to fix this: {way}' if way else 'nothing was committed'}")
