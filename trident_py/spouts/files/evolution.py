"""Rules for files that have other fields than the schema."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from attrs import frozen

from trident_py.errors import SpoutError

log = logging.getLogger(__name__)


def check_once(names: Sequence[str]) -> None:
    """Check that no name is there twice.

    Raises:
        ValueError: one is.
    """
    if again := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"it has the field {again[0]!r} {names.count(again[0])} times")


@frozen(kw_only=True)
class Evolution:
    """The treatment of fields that a file has and the schema hasn't, and the other way round.

    Attributes:
        is_found: whether the schema was found in files; else the user has chosen the fields, and a file may have more.
        adds: whether a field that a file lacks is NULL, and one that was not found before waits for the next start;
            else such a file stops the topology.
    """

    is_found: bool = False
    adds: bool = False

    def check(self, path: str, names: Sequence[str], wanted: Sequence[str]) -> None:
        """Compare the names of a file's fields with the names of the schema's fields.

        Raises:
            SpoutError: they don't fit.
        """
        try:
            check_once([name for name in names if name in wanted])
        except ValueError as error:
            raise SpoutError(
                f"file {path!r}: {error}; to fix this: leave it out of schema=, or move the file out of the pattern"
            ) from error
        missing = [name for name in wanted if name not in names]
        if missing and not (self.adds and len(missing) < len(wanted)):
            raise SpoutError(
                f"file {path!r} has no field {missing[0]!r}; it has {', '.join(names)}; to fix this: give FileSpout a "
                f"schema that fits, or schema_evolution='add', which reads NULL, or leave the file out of the pattern"
            )
        more = [name for name in names if name not in wanted] if self.is_found else []
        if more and self.adds:
            log.warning("file %r has more fields than were found at the start: %s", path, ", ".join(more))
        elif more:
            raise SpoutError(
                f"file {path!r} has the field {more[0]!r}, which was not found at the start; to fix this: start the "
                f"topology again, or give FileSpout the fields to read as schema="
            )
