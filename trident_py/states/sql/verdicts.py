"""What the errors of a database mean for a batch: by the codes that its server and its library give."""

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
    """Make each value that is refused an error that ends the topology: a state would compute it again.

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
        verdicts: by code. One that isn't there comes again.
        ways_out: by code, what to do.
        unknown: those that came and aren't there.
    """

    verdicts: Mapping[Code, Verdict]
    ways_out: Mapping[Code, str]
    unknown: UnknownErrors = field(factory=UnknownErrors, eq=False, repr=False)

    def verdict(self, codes: Sequence[Code]) -> Verdict | None:
        """Return the verdict of the first of ``codes`` that is known; None: none is."""
        return next((self.verdicts[code] for code in codes if code in self.verdicts), None)

    def error(self, where: str, said: str, codes: Sequence[Code], way_out: str = "") -> FailedException | StateError:
        """Return the error to raise.

        Args:
            where: names the topology, the attempt and the table.
            said: what the database said.
            codes: of the error, the most specific one first.
            way_out: what to do, in place of what is known of the code.
        """
        verdict = self.verdict(codes)
        if verdict is None:
            self.unknown.came(codes[0], f"{where}: {said} (error {codes[0]})")
        if verdict in (None, Verdict.COMES_AGAIN):
            return StoreBusyException(f"{where}: {said}")
        way = way_out or next((self.ways_out[code] for code in codes if code in self.ways_out), "")
        kind = FailedException if verdict is Verdict.THIS_BATCH else StateError
        return kind(f"{where}: {said}; {f'to fix this: {way}' if way else 'nothing was committed'}")
