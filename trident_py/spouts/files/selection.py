"""The options that say which files of a place are read, in which order, and where their names are kept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

from attrs import frozen

from coordinators.values.canonical import Json
from trident_py.errors import TopologyError
from trident_py.interfaces.config import TridentConfig
from trident_py.rows.schema import shown
from trident_py.sinks.files.local_path import OBJECT_SCHEMES, local_path
from trident_py.spouts.files.inventory import ShardFiles
from trident_py.spouts.files.objects import ObjectFolder, Objects
from trident_py.spouts.files.places import Place
from trident_py.spouts.files.search import AnyOrder, NameOrder, Search
from trident_py.spouts.spool.files import SpoolDirectory

RELIST = timedelta(hours=1)


@frozen(kw_only=True)
class Selection:
    """The options of `FileSpout` of the same names, which were checked."""

    order: str | None
    relist: timedelta
    late: str
    max_age: timedelta | None
    directory: Path | ObjectFolder | None

    def __attrs_post_init__(self) -> None:
        if self.order not in (None, "name"):
            raise TopologyError(f"order is 'name' or None, not {shown(self.order)}")
        if self.late not in ("fail", "read"):
            raise TopologyError(f"late is one of 'fail', 'read', not {shown(self.late)}")
        for name, given in (("relist", self.relist), ("max_age", self.max_age)):
            if not (given is None and name == "max_age") and not _is_long(given):
                raise TopologyError(f"{name} is a timedelta of more than 0 s, not {shown(given)}")
        if self.order is None and (self.relist, self.late) != (RELIST, "fail"):
            raise TopologyError("relist and late are for order='name': without it, each look lists all objects")

    def check(self, place: Place, *, are_whole: bool) -> None:
        """Check that files of ``place`` can be selected like this.

        Raises:
            TopologyError: they can't.
        """
        if not are_whole and (self.max_age is not None or self.directory is not None):
            raise TopologyError(
                "lines of local files take no max_age and no directory: such files may grow at any time, and the "
                "record of the topology has their positions"
            )
        if self.order and not isinstance(place, Objects):
            raise TopologyError(f"{place.text!r} is a pattern of local files, which take no order: a look finds all")

    def search(self, place: Place, settled: timedelta) -> Search:
        """Return the search for files of ``place``, which are complete if they haven't changed for ``settled``."""
        max_age = None if self.max_age is None else self.max_age.total_seconds()
        if self.order is None:
            return AnyOrder(place=place, max_age=max_age, settled=settled.total_seconds())
        reads_late = self.late == "read"
        return NameOrder(place=place, max_age=max_age, relist=self.relist.total_seconds(), reads_late=reads_late)

    def files(self, conf: TridentConfig, topology: str, tx_id: str) -> ShardFiles:
        """Return the place for the inventory of a spout."""
        folder, name = f"{topology}-files", quote(tx_id, safe="")
        if isinstance(self.directory, ObjectFolder):
            return self.directory.below(folder, name)
        return SpoolDirectory((self.directory or conf.state_dir) / folder / name)

    def details(self) -> dict[str, Json]:
        """Return the options that the record of the topology tells."""
        told = {"order": self.order, "directory": self.directory}
        return {name: str(value) for name, value in told.items() if value is not None}


def directory_of(
    directory: str | os.PathLike[str] | None, options: Mapping[str, str] | None
) -> Path | ObjectFolder | None:
    """Return the place for inventories that the user has given.

    Raises:
        TopologyError: it is no directory and no folder of objects.
    """
    if isinstance(directory, str) and directory.startswith(tuple(f"{scheme}://" for scheme in OBJECT_SCHEMES)):
        return ObjectFolder.of(directory, options or {})
    return None if directory is None else local_path(directory)


def _is_long(given: object) -> bool:
    return isinstance(given, timedelta) and given > timedelta(0)
