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
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from tests.unit.trident_py.spouts.files.world import World, write
from trident_py.errors import SpoutError

KEPT = 4


class Rotation(RuleBasedStateMachine):
    """One log whose lines are numbered, and one writer; rotated as logrotate does it, by one way or another in turn.

    Only what logrotate itself may lose is left out: lines that come between a copy and the cut.
    """

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.log = self.directory / "a.log"
        self.log.touch()
        self.world = World(self.pattern)
        self.written: list[str] = []
        self.given: list[str] = []
        self.rows: list[Any] = []
        self.deleted: set[str] = set()
        self.error = ""

    @property
    def pattern(self) -> Path:
        return self.directory / "a.log*"

    # --- the writer and its logrotate ---------------------------------------------------------------------------------

    @rule(count=st.integers(1, 3), padding=st.sampled_from([0, 0, 30, 500]))
    def append(self, count: int, padding: int) -> None:
        lines = [f"{len(self.written) + number:05d}{'x' * padding}" for number in range(count)]
        self.written += lines
        write(self.log, "".join(f"{line}\n" for line in lines).encode())

    @rule()
    def rename(self) -> None:
        self.make_room()
        self.log.rename(self.directory / "a.log.1")
        self.log.touch()

    @rule()
    def rename_without_a_new_one(self) -> None:
        self.make_room()
        self.log.rename(self.directory / "a.log.1")

    @precondition(lambda self: self.log.exists())
    @rule(refill=st.booleans())
    def copy_and_cut(self, refill: bool) -> None:
        self.make_room()
        shutil.copyfile(self.log, self.directory / "a.log.1")
        self.look()
        self.log.write_bytes(b"")
        if refill:
            self.append(3, 500)

    @precondition(lambda self: (self.directory / "a.log.1").exists())
    @rule()
    def compress(self) -> None:
        source, packed = self.directory / "a.log.1", self.directory / "a.log.1.gz"
        data = gzip.compress(source.read_bytes())
        packed.write_bytes(data[: len(data) // 2])
        self.look()
        packed.write_bytes(data)
        self.look()
        source.unlink()

    @precondition(lambda self: self.log.exists() and self.log.stat().st_size)
    @rule()
    def replace_by_a_copy(self) -> None:
        shutil.copyfile(self.log, self.directory / "tmp")
        os.replace(self.directory / "tmp", self.log)

    @rule()
    def restore_under_another_device(self) -> None:
        # As after a remount: what was stored has other devices. Then only the hashes tell.
        for cursor in self.world.cursors.values():
            cursor[2][0] += 1
        self.restart()

    def make_room(self) -> None:
        if not self.log.exists():
            self.log.touch()
        for number in range(KEPT, 0, -1):
            for suffix in ("", ".gz"):
                old = self.directory / f"a.log.{number}{suffix}"
                if old.exists() and number == KEPT:
                    self.delete(old)
                elif old.exists():
                    old.rename(self.directory / f"a.log.{number + 1}{suffix}")

    def delete(self, path: Path) -> None:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        self.deleted.update(data.decode().splitlines())
        path.unlink()

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

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(0, len(self.rows) - 1))
        metadata, before = self.rows[number]
        if self.deleted.intersection(text for text, _, _ in before):
            return  # a transaction that is committed isn't replayed

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
            self.given += [text for text, _, _ in rows]

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
            self.attempt(lambda: self.given.extend(self.world.lines()))
        if self.error:
            assert str(self.directory) in self.error
            assert self.deleted - set(self.given), self.error
        else:
            assert set(self.written) - set(self.given) <= self.deleted
        shutil.rmtree(self.directory)


TestRotation = Rotation.TestCase
TestRotation.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
