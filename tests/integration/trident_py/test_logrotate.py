"""logrotate itself, on a log that a `FileSpout` reads: each line once, whatever its configuration says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.unit.trident_py.spouts.files.world import World, write

WAYS = {
    "create": "create",
    "copytruncate": "copytruncate",
    "compress": "create\n compress",
    "delaycompress": "create\n compress\n delaycompress",
    "copytruncate, compress": "copytruncate\n compress",
    "dated names": "create\n dateext\n dateformat -%Y%m%d.{turn}",
    "dated names, compress": "copytruncate\n compress\n dateext\n dateformat -%Y%m%d.{turn}",
    "no new file": "nocreate",
}
TURNS = 4


def rotate(logrotate: str, log: Path, options: str) -> None:
    config, state = log.parent / "logrotate.conf", log.parent / "logrotate.state"
    config.write_text(f"{log} {{\n rotate 10\n {options}\n}}\n")
    config.chmod(0o600)
    subprocess.run([logrotate, "--force", "--state", state, config], check=True, capture_output=True, text=True)


@pytest.mark.parametrize("lines", [1, 100])
@pytest.mark.parametrize("between", ["running", "stopped", "all read", "all read, then stopped"])
@pytest.mark.parametrize("way", WAYS)
def test_each_line_is_read_once(logrotate: str, tmp_path: Path, way: str, between: str, lines: int) -> None:
    log = tmp_path / "access.log"
    world = World(tmp_path / "access.log*", max_bytes_per_batch=1000)
    written: list[str] = []
    given: list[str] = []
    for turn in range(TURNS):
        new = [f"line {number} of turn {turn}" for number in range(lines)]
        write(log, "".join(f"{line}\n" for line in new).encode())
        written += new
        if between.startswith("all read"):
            given += world.lines()
        elif metadata := world.define():
            given += [text for text, _, _ in world.rows(metadata)]
        if between.endswith("stopped"):
            world.restart()
        rotate(logrotate, log, WAYS[way].format(turn=turn))
    given += world.lines()
    assert sorted(given) == sorted(written)
    world.restart()
    assert world.lines() == []


@pytest.mark.parametrize("way", ["create", "delaycompress"])
def test_a_pattern_of_the_current_file_alone_reads_what_was_renamed(logrotate: str, tmp_path: Path, way: str) -> None:
    log = tmp_path / "access.log"
    world = World(log)
    given: list[str] = []
    for turn in range(TURNS):
        write(log, b"line of turn %d\n" % turn)
        given += world.lines()
        write(log, b"unread line of turn %d\n" % turn)
        rotate(logrotate, log, WAYS[way])
        given += world.lines()
    assert given == [line for turn in range(TURNS) for line in (f"line of turn {turn}", f"unread line of turn {turn}")]
