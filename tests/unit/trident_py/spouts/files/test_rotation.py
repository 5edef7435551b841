"""Writers, rotations, looks, batches, replays and restarts in any order: each line once, or an end by name."""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.unit.trident_py.spouts.files.world import World, write
from trident_py.errors import SpoutError

KEPT = 4
MAYBE_SHORTER, MAYBE_ANOTHER, MAYBE_READ = (
    "begins like it but ends before",
    "too few to tell",
    "which has the same lines",
)
HEADERS = ["", "# columns: x y z", f"# {'h' * 100}", f"# {'h' * 1100}"]


class Rotation(RuleBasedStateMachine):
    """One log whose lines are numbered, and one writer; rotated as logrotate does it, by one way or another in turn.

    Attributes:
        deleted: lines that may be missing, since their file is deleted, or logrotate itself loses them.
        unknown: lines that may be missing, since the pattern hasn't shown their file.
        doubts: the ends that are right: a new file may be a copy of another one that lacks lines which were read, as a
            copy was made while lines came, or all begin with the same header; or it may be one of a file of a few
            bytes, whose inode is gone.
        has_lost_header: whether a file of a header alone was deleted. Another file that has its inode and this header
            can't be told from it.
        has_short_copy: whether there is such a copy: in place of its file, or once that is gone with its inode, it
            would be a new one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.log = self.directory / "a.log"
        self.header = b""
        self.world = World(self.pattern)
        self.written: list[str] = []
        self.given: list[str] = []
        self.rows: list[Any] = []
        self.deleted: set[str] = set()
        self.unknown: set[str] = set()
        self.doubts: set[str] = set()
        self.has_lost_header = False
        self.has_short_copy = False
        self.has_late_writer = False
        self.error = ""

    @initialize(header=st.sampled_from(HEADERS), most=st.sampled_from([1 << 20, 1100]))
    def begin(self, header: str, most: int) -> None:
        self.header = f"{header}\n".encode() if header else b""
        self.doubts = {MAYBE_SHORTER, MAYBE_ANOTHER, MAYBE_READ} if header else set()
        self.log.write_bytes(self.header)
        self.world = World(self.pattern, max_bytes_per_batch=most)

    @property
    def pattern(self) -> Path:
        return self.directory / "a.log*"

    @property
    def rotated(self) -> Path:
        return self.directory / "a.log.1"

    # --- the writer and its logrotate ---------------------------------------------------------------------------------

    @rule(count=st.integers(1, 3), padding=st.sampled_from([0, 0, 30, 500]))
    def append(self, count: int, padding: int) -> None:
        self.append_to(self.log, count, padding)

    @precondition(lambda self: self.has_late_writer and self.rotated.exists())
    @rule(count=st.integers(1, 3), padding=st.sampled_from([0, 500]))
    def append_to_the_renamed(self, count: int, padding: int) -> None:
        self.append_to(self.rotated, count, padding)

    @rule()
    def rename(self) -> None:
        self.rename_without_a_new_one()
        self.log.write_bytes(self.header)

    @rule()
    def rename_without_a_new_one(self) -> None:
        self.make_room()
        self.log.rename(self.rotated)
        self.has_late_writer = True

    @precondition(lambda self: self.log.exists())
    @rule(refill=st.booleans(), late=st.sampled_from([0, 0, 2]))
    def copy_and_cut(self, refill: bool, late: int) -> None:
        self.make_room()
        shutil.copyfile(self.log, self.rotated)
        self.look()
        if late:  # which logrotate loses
            self.append(late, 30)
            self.doubts.add(MAYBE_SHORTER)
            self.has_short_copy = True
            self.deleted.update(self.written[-late:])
            self.batch()
            self.rows = []  # as where a file is deleted
        self.log.write_bytes(self.header)
        if refill:
            self.append(3, 500)

    @precondition(lambda self: self.log.exists() and self.rotated.exists() and not self.has_short_copy)
    @rule()
    def swap(self) -> None:
        self.note_leaving()
        self.log.rename(self.directory / "tmp")
        self.rotated.rename(self.log)
        (self.directory / "tmp").rename(self.rotated)
        self.note_coming()

    @precondition(lambda self: self.log.exists())
    @rule(padding=st.sampled_from([0, 500]))
    def delete_what_was_read_and_begin_anew(self, padding: int) -> None:
        if not set(lines_of(self.log)) <= set(self.given):
            return  # not a precondition: what was given depends on inodes, which the file system uses again as it likes
        self.delete(self.log)
        self.log.write_bytes(self.header)
        self.append(2, padding)

    # A file of a header alone whose inode is gone can't be told from any other one with this header.
    @precondition(lambda self: bool(not self.header or lines_of(self.rotated)))
    @precondition(lambda self: self.rotated.exists() and not self.has_short_copy)
    @rule()
    def compress(self) -> None:
        source, packed = self.rotated, self.directory / "a.log.1.gz"
        data = gzip.compress(source.read_bytes())
        packed.write_bytes(data[: len(data) // 2])
        self.look()
        packed.write_bytes(data)
        self.look()
        source.unlink()
        self.doubts.add(MAYBE_ANOTHER)

    @precondition(lambda self: not self.has_short_copy and not self.has_lost_header)
    @precondition(lambda self: self.log.exists() and self.log.stat().st_size)
    @rule()
    def replace_by_a_copy(self) -> None:
        shutil.copyfile(self.log, self.directory / "tmp")
        os.replace(self.directory / "tmp", self.log)
        self.doubts.add(MAYBE_ANOTHER)
        self.note_coming()

    @precondition(lambda self: not self.header)
    @rule()
    def restore_under_another_device(self) -> None:
        # As after a remount: what was stored has other devices. Then only the hashes tell; and of files with the same
        # header they don't always tell enough, see the limits in docs/how-to/logs.md.
        for cursor in self.world.cursors.values():
            if isinstance(cursor, list):  # else it is a forgotten one
                cursor[2][0] += 1
        self.restart()

    def note_leaving(self) -> None:
        """What the log has for a file now is about to get another name."""

    def note_coming(self) -> None:
        """Another file with the same text has taken the log's place."""

    def make_room(self) -> None:
        self.note_leaving()
        self.has_late_writer = False
        if not self.log.exists():
            self.log.write_bytes(self.header)
        for number in range(KEPT, 0, -1):
            for suffix in ("", ".gz"):
                old = self.directory / f"a.log.{number}{suffix}"
                if old.exists() and number == KEPT:
                    self.delete(old)
                elif old.exists():
                    old.rename(self.directory / f"a.log.{number + 1}{suffix}")

    def delete(self, path: Path) -> None:
        lines = lines_of(path)
        self.deleted.update(lines)
        self.has_lost_header = self.has_lost_header or bool(self.header and not lines)
        self.rows = []  # what reads from it is committed, and isn't replayed
        path.unlink()
        self.doubts.add(MAYBE_ANOTHER)

    def append_to(self, path: Path, count: int, padding: int) -> None:
        numbers = range(len(self.written), len(self.written) + count)
        # Files without a header differ from their first bytes on: else a shorter one may be the beginning of another.
        lines = [f"{number * 61803 % 100000:05d}{'x' * padding}" for number in numbers]
        self.written += lines
        if not path.exists():
            path.write_bytes(self.header)
        write(path, "".join(f"{line}\n" for line in lines).encode())

    # --- the spout ----------------------------------------------------------------------------------------------------

    @rule()
    def look(self) -> None:
        self.attempt(lambda: self.world.coordinator.is_ready(self.world.txid))

    @rule(seconds=st.sampled_from([0.5, 2.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @rule()
    def batch(self) -> None:
        self.attempt(self.define_and_read)

    @rule(number=st.integers(0, 99))
    def replay(self, number: int) -> None:
        if not self.rows:
            return
        metadata, before = self.rows[number % len(self.rows)]

        def again() -> None:
            assert self.world.rows(metadata) == before

        self.attempt(again)

    @rule()
    def restart(self) -> None:
        self.world.restart()

    def define_and_read(self) -> None:
        if metadata := self.world.define():
            rows = self.world.rows(metadata)
            self.rows.append((metadata, rows))
            self.given += [text for text, _, _ in rows if text[0] != "#"]

    def attempt(self, action: Any) -> None:
        if self.error:
            return
        try:
            action()
        except SpoutError as error:
            self.error = str(error)
        assert len(set(self.given)) == len(self.given)

    def teardown(self) -> None:
        for _ in range(3):
            self.attempt(lambda: self.given.extend(text for text in self.world.lines() if text[0] != "#"))
        if self.error:
            assert str(self.directory) in self.error
            assert self.deleted - set(self.given) or any(doubt in self.error for doubt in self.doubts), self.error
        else:
            assert set(self.written) - set(self.given) <= self.deleted | self.unknown
        shutil.rmtree(self.directory)


def lines_of(path: Path) -> list[str]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [line for line in data.decode().splitlines() if line[0] != "#"]


class RotationOutOfThePattern(Rotation):
    """With a pattern of the current file alone: what is renamed before a line of it was read may be missed.

    Attributes:
        known_from: lines that were given from here on show which file has the log's name.
    """

    known_from = 0

    @property
    def pattern(self) -> Path:
        return self.log

    def note_leaving(self) -> None:
        if self.log.exists() and not set(lines_of(self.log)) & set(self.given[self.known_from :]):
            self.unknown.update(lines_of(self.log))

    def note_coming(self) -> None:
        self.batch()  # one that may be planned already, of the file before
        self.known_from = len(self.given)

    def append_to(self, path: Path, count: int, padding: int) -> None:
        is_unknown = path != self.log and set(lines_of(path)) <= self.unknown
        super().append_to(path, count, padding)
        if is_unknown:
            self.unknown.update(self.written[-count:])


TestRotation = Rotation.TestCase
TestRotation.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestRotationOutOfThePattern = RotationOutOfThePattern.TestCase
TestRotationOutOfThePattern.settings = TestRotation.settings
