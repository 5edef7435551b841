"""Rotations, copies and replacements, step by step: each line once, or an end that names the file."""

from __future__ import annotations

import bz2
import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.trident_py.spouts.files.world import World, write
from trident_py.errors import SpoutError
from trident_py.spouts.files import files

LONG = b"".join(b"line %d of a long log\n" % number for number in range(200))


def lines(data: bytes) -> list[str]:
    return data.decode().splitlines()


def pack(path: Path) -> None:
    """As gzip does: the packed file is complete before the other one goes, and has its times."""
    status = path.stat()
    packed = path.with_name(f"{path.name}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    os.utime(packed, ns=(status.st_atime_ns, status.st_mtime_ns))
    path.unlink()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write(tmp_path / "a.log", LONG)


@pytest.fixture(params=["running", "stopped"])
def meanwhile(request: pytest.FixtureRequest) -> Callable[[World], None]:
    """What lies between two looks: nothing, or another process."""
    return World.restart if request.param == "stopped" else lambda world: None


Between = Callable[[World], None]


def test_a_renamed_file_and_the_one_that_takes_its_name_are_read_once(log: Path, meanwhile: Between) -> None:
    world = World(log.parent / "a.log*")
    assert world.lines() == lines(LONG)
    write(log, b"unread\n")
    log.rename(log.parent / "a.log.1")
    write(log, b"new\n")
    meanwhile(world)
    assert world.lines() == ["new", "unread"]
    meanwhile(world)
    assert world.lines() == []


def test_a_position_that_is_stored_under_a_new_name_is_forgotten_under_the_old(log: Path) -> None:
    world = World(log.parent / "a.log*", max_bytes_per_batch=1000)
    world.define()
    shutil.copyfile(log, log.parent / "a.log.1")
    log.write_bytes(b"")
    assert [split[:2] for split in world.define()] == [[str(log), 0], [str(log.parent / "a.log.1"), 980]]
    assert world.cursors[str(log)] == 0
    world.restart()
    assert len(world.lines()) + sum(len(world.rows(metadata)) for metadata in world.stored[:2]) == 200


def test_a_chain_of_renames_moves_every_position(log: Path, meanwhile: Between) -> None:
    world = World(log.parent / "a.log*")
    expected = lines(LONG)
    given = world.lines()
    for turn in range(5):
        for number in range(turn, 0, -1):
            (log.parent / f"a.log.{number}").rename(log.parent / f"a.log.{number + 1}")
        log.rename(log.parent / "a.log.1")
        write(log, b"line of turn %d\n" % turn)
        expected.append(f"line of turn {turn}")
        meanwhile(world)
        given += world.lines()
    meanwhile(world)
    assert given == expected
    assert world.lines() == []


def test_what_takes_the_name_of_an_empty_file_is_known_by_itself(tmp_path: Path) -> None:
    (tmp_path / "a.log.1").touch()
    log = write(tmp_path / "a.log", b"one\n")
    world = World(tmp_path / "a.log*")
    assert world.lines() == ["one"]
    (tmp_path / "a.log.1").rename(tmp_path / "a.log.2")
    log.rename(tmp_path / "a.log.1")
    assert world.lines() == []


def test_positions_under_new_names_are_stored_before_theirs_are_replaced(log: Path) -> None:
    world = World(log.parent / "a.log*")
    world.lines()
    log.rename(log.parent / "a.log.1")
    write(log, b"new\n")
    assert [split[:3] for split in world.define()] == [
        [str(log.parent / "a.log.1"), len(LONG), len(LONG)],
        [str(log), 0, 4],
    ]
    world.restart()
    assert world.lines() == []


def test_what_was_renamed_out_of_the_pattern_is_read_to_its_end_first(log: Path, meanwhile: Between) -> None:
    world = World(log)
    assert world.lines() == lines(LONG)
    write(log, b"unread\n")
    log.rename(log.parent / "a.log.1")
    write(log, b"new\n")
    meanwhile(world)
    assert world.lines() == ["unread", "new"]
    meanwhile(world)
    write(log, b"newer\n")
    assert world.lines() == ["newer"]


def test_what_is_added_to_a_file_that_left_the_pattern_is_read_after_the_new_one_was_begun(
    log: Path, meanwhile: Between
) -> None:
    world = World(log)
    world.lines()
    log.rename(log.parent / "a.log.1")
    write(log, b"new\n")
    assert world.lines() == ["new"]
    write(log.parent / "a.log.1", b"late\n")
    meanwhile(world)
    assert world.lines() == ["late"]
    write(log.parent / "a.log.1", b"later\n")
    (log.parent / "a.log.1").rename(log.parent / "a.log.2")
    log.rename(log.parent / "a.log.1")
    write(log, b"newer\n")
    meanwhile(world)
    assert sorted(world.lines()) == ["later", "newer"]
    for name in ("a.log.1", "a.log.2"):
        write(log.parent / name, b"%s\n" % name.encode())
    meanwhile(world)
    assert world.lines() == ["a.log.1", "a.log.2"]
    write(log.parent / "a.log.2", b"latest\n")
    pack(log.parent / "a.log.2")
    meanwhile(world)
    assert world.lines() == ["latest"]
    meanwhile(world)
    assert world.lines() == []


def test_what_left_the_pattern_with_lines_that_are_gone_ends_the_query(log: Path, meanwhile: Between) -> None:
    world = World(log, max_bytes_per_batch=1000)
    world.lines()
    log.rename(log.parent / "a.log.1")
    write(log, b"new\n")
    world.lines()
    write(log.parent / "a.log.1", LONG)
    world.define()
    (log.parent / "a.log.1").unlink()
    meanwhile(world)
    with pytest.raises(SpoutError, match=r"a.log.1', of which \d+ bytes were read and \d+ were seen, is not there"):
        world.lines()


def test_what_left_a_pattern_that_is_another_one_now_is_left_alone(log: Path) -> None:
    world = World(log)
    world.lines()
    log.rename(log.parent / "a.log.1")
    write(log, b"new\n")
    world.lines()
    write(log.parent / "a.log.1", b"late\n")
    world.glob = log.parent / "b.log"
    world.restart()
    assert world.lines() == []
    world.glob = log.parent / "a.log*"
    world.restart()
    assert world.lines() == ["late"]


def test_a_copy_that_may_lack_what_was_read_is_named_also_where_its_file_has_no_name_any_more(tmp_path: Path) -> None:
    log = write(tmp_path / "a.log", b"one\n")
    world = World(tmp_path / "a.log*")
    world.lines()
    shutil.copyfile(log, tmp_path / "a.log.2")
    write(log, b"two\n")
    world.define()
    log.write_bytes(b"new\n")
    log.rename(tmp_path / "a.log.1")
    with pytest.raises(SpoutError, match=r"'.*a.log.2' begins like it but ends before the bytes that were read of it"):
        world.lines()


@pytest.mark.parametrize("is_cut", [True, False])
def test_a_file_that_is_cut_to_its_header_and_renamed_is_told_from_a_new_one_that_has_its_inode(
    log: Path, meanwhile: Between, is_cut: bool
) -> None:
    header = b"# a header of a log that is somewhat longer than sixty-four bytes, as a W3C log has\n"
    log.write_bytes(header + LONG)
    world = World(f"{log}*")
    world.lines()
    other = header + LONG.replace(b"line", b"Line")[:2000]
    (log.parent / "a.log.2").write_bytes(header + LONG[:2000] if is_cut else other)
    log.write_bytes(header)
    log.rename(log.parent / "a.log.1")
    meanwhile(world)
    if is_cut:
        with pytest.raises(
            SpoutError, match=r"'.*a.log.2' begins like it but ends before the bytes that were read of it"
        ):
            world.lines()
    else:
        assert sorted(world.lines()) == sorted(lines(header + other))


def test_a_file_of_which_only_a_common_header_was_read_does_not_take_another_ones_place(tmp_path: Path) -> None:
    header, rows = b"# header\n" * 12, [b"%d\n" % number * 100 for number in range(2)]
    first = write(tmp_path / "b.log", header + rows[0])
    second = write(tmp_path / "a.log", header + rows[1])
    world = World(tmp_path / "?.log", max_bytes_per_batch=len(header))
    while len(world.cursors) < 2:
        world.define()
    world.restart()
    second.rename(tmp_path / "c.log")
    first.write_bytes(header[:50])
    first.rename(tmp_path / "d.log")  # another one that has its inode now
    with pytest.raises(SpoutError, match=r"b.log', of which \d+ bytes were read and 308 were seen, is not there"):
        world.all()


def test_a_file_that_is_deleted_is_not_looked_for_in_one_that_is_shorter(log: Path, meanwhile: Between) -> None:
    world = World(log.parent / "a.log*")
    world.lines()
    write(log.parent / "a.log.1", b"other\n" * 100)
    log.write_bytes(b"")
    meanwhile(world)
    assert world.lines() == ["other"] * 100


def test_a_file_that_is_cut_after_it_was_copied_goes_on_in_the_copy(log: Path, meanwhile: Between) -> None:
    world = World(log.parent / "a.log*")
    assert world.lines() == lines(LONG)
    write(log, b"unread\n")
    shutil.copyfile(log, log.parent / "a.log.1")
    log.write_bytes(b"")
    meanwhile(world)
    assert world.lines() == ["unread"]
    write(log, b"new\n")
    meanwhile(world)
    assert world.lines() == ["new"]
    meanwhile(world)
    assert world.lines() == []


def test_a_file_that_is_cut_and_filled_beyond_its_old_size_is_told_from_itself(log: Path, meanwhile: Between) -> None:
    world = World(log.parent / "a.log*")
    world.lines()
    shutil.copyfile(log, log.parent / "a.log.1")
    log.write_bytes(b"new\n" + LONG)
    meanwhile(world)
    assert world.lines() == ["new", *lines(LONG)]


def test_a_copy_is_held_back_while_it_grows_and_is_the_file_once_that_is_cut(log: Path) -> None:
    world = World(log.parent / "a.log*")
    world.lines()
    for end in (3, 70, 2000, len(LONG)):
        (log.parent / "a.log.1").write_bytes(LONG[:end])
        assert world.define() is None
        assert world.coordinator.has_pending_input()
        world.pass_time(1.9)
    log.write_bytes(b"new\n")
    assert world.lines() == ["new"]


def test_a_copy_is_the_file_that_was_cut_whatever_both_are_called_by_then(tmp_path: Path, meanwhile: Between) -> None:
    log = write(tmp_path / "a.log", b"one\n")
    world = World(tmp_path / "a.log*")
    assert world.lines() == ["one"]
    shutil.copyfile(log, tmp_path / "a.log.2")
    log.write_bytes(b"")
    log.rename(tmp_path / "a.log.1")
    meanwhile(world)
    assert world.lines() == []


def test_an_empty_file_is_no_copy(tmp_path: Path) -> None:
    log = write(tmp_path / "a.log", b"one\n")
    world = World(tmp_path / "a.log*")
    world.lines()
    (tmp_path / "a.log.1").touch()
    log.write_bytes(b"two\n")
    assert world.lines() == ["two"]


def test_a_copy_that_is_seen_together_with_its_file_is_held_back(tmp_path: Path) -> None:
    log = write(tmp_path / "a.log", b"one\n")
    shutil.copyfile(log, tmp_path / "a.log.1")
    world = World(tmp_path / "a.log*")
    assert [row[0] for rows in world.batches() for row in rows] == ["one"]
    log.write_bytes(b"two\n")
    assert world.lines() == ["two"]


def test_a_copy_that_has_not_changed_for_two_seconds_is_a_file_of_its_own(log: Path) -> None:
    world = World(log.parent / "a.log*")
    world.lines()
    shutil.copyfile(log, log.parent / "a.log.1")
    assert list(world.batches()) == []
    world.pass_time()
    assert world.lines() == lines(LONG)
    log.write_bytes(b"")
    with pytest.raises(
        SpoutError, match=r"a.log', .* was cut or replaced, and '.*a.log.1', which has the same lines, was"
    ):
        world.lines()


def test_a_new_file_that_goes_on_in_another_way_is_not_held_back(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", b"name,age\nann,1\n")
    world = World(tmp_path / "*.csv")
    world.lines()
    write(tmp_path / "b.csv", b"name,age\n")
    assert list(world.batches()) == []
    write(tmp_path / "b.csv", b"bob,2\n")
    assert [[row[0] for row in rows] for rows in world.batches()] == [["name,age", "bob,2"]]


def test_what_is_compressed_after_it_was_read_is_the_same_file(log: Path, meanwhile: Between) -> None:
    world = World(log.parent / "a.log*")
    assert world.lines() == lines(LONG)
    log.rename(log.parent / "a.log.1")
    write(log, b"new\n")
    pack(log.parent / "a.log.1")
    meanwhile(world)
    assert world.lines() == ["new"]
    meanwhile(world)
    assert world.lines() == []


def test_what_is_compressed_before_all_of_it_was_read_goes_on_inside(log: Path, meanwhile: Between) -> None:
    world = World(log.parent / "a.log*", max_bytes_per_batch=1000)
    first = world.rows(world.define())
    log.rename(log.parent / "a.log.1")
    pack(log.parent / "a.log.1")
    write(log, b"new\n")
    meanwhile(world)
    rest = world.all()
    assert sorted([row[0] for row in first] + [row[0] for rows in rest for row in rows]) == sorted(
        [*lines(LONG), "new"]
    )
    positions = sorted(row[2] for rows in [first, *rest] for row in rows if row[0] != "new")
    assert len(set(positions)) == len(positions) == 200


def test_a_file_that_is_compressed_outside_of_the_pattern_is_read_to_its_end(log: Path, meanwhile: Between) -> None:
    world = World(log, max_bytes_per_batch=1000)
    given = [row[0] for row in world.rows(world.define())]
    log.rename(log.parent / "a.log.1")
    pack(log.parent / "a.log.1")
    write(log, b"new\n")
    meanwhile(world)
    assert given + world.lines() == [*lines(LONG), "new"]


@pytest.mark.parametrize("unpack", [False, True])
def test_compressed_files_are_known_by_what_they_contain(log: Path, meanwhile: Between, unpack: bool) -> None:
    pack(log)
    world = World(log.parent / "*")
    assert world.lines() == lines(LONG)
    packed = log.parent / "a.log.gz"
    packed.unlink()
    if unpack:
        write(log, LONG)
    else:
        (log.parent / "a.log.bz2").write_bytes(bz2.compress(LONG))
    meanwhile(world)
    assert world.lines() == []


def test_a_compressed_file_that_is_packed_anew_is_not_read_again(log: Path, meanwhile: Between) -> None:
    pack(log)
    world = World(log.parent / "*")
    world.lines()
    (log.parent / "a.log.gz").write_bytes(gzip.compress(LONG, compresslevel=1, mtime=0))
    meanwhile(world)
    assert world.lines() == []
    (log.parent / "a.log.gz").write_bytes(gzip.compress(LONG) + gzip.compress(b"another member\n"))
    meanwhile(world)
    assert world.lines() == ["another member"]


def test_a_copy_in_place_of_a_file_is_the_file(log: Path, meanwhile: Between) -> None:
    world = World(log.parent / "a.log*")
    world.lines()
    shutil.copyfile(log, log.parent / "b.tmp")
    write(log.parent / "b.tmp", b"new\n")
    (log.parent / "b.tmp").replace(log)
    meanwhile(world)
    assert world.lines() == ["new"]


def test_a_file_that_is_replaced_by_another_of_the_same_size_is_a_new_one(tmp_path: Path, meanwhile: Between) -> None:
    log = write(tmp_path / "a.log", b"old1\nold2\n")
    world = World(tmp_path / "*.log")
    world.lines()
    write(tmp_path / "b.tmp", b"new1\nnew2\n").replace(log)
    meanwhile(world)
    assert world.lines() == ["new1", "new2"]


def test_a_file_that_was_read_and_is_written_anew_is_a_new_one(tmp_path: Path, meanwhile: Between) -> None:
    log = write(tmp_path / "a.log", b"one\ntwo\n")
    world = World(tmp_path / "*.log")
    world.lines()
    log.write_bytes(b"one\n")
    meanwhile(world)
    assert world.lines() == ["one"]
    log.unlink()
    meanwhile(world)
    assert world.lines() == []
    write(log, b"three\nfour\nfive\n")
    meanwhile(world)
    assert world.lines() == ["three", "four", "five"]


def test_another_file_with_the_text_of_one_that_was_deleted_is_read(tmp_path: Path) -> None:
    log = write(tmp_path / "a.log", b"ok\n")
    world = World(tmp_path / "*.log")
    world.lines()
    log.unlink()
    assert world.lines() == []
    write(tmp_path / "b.log", b"ok\n")
    assert world.lines() == ["ok"]


def test_a_file_that_was_deleted_and_is_put_back_long_after_is_not_read_again(log: Path, meanwhile: Between) -> None:
    world = World(log.parent / "*.log*")
    world.lines()
    log.unlink()
    for number in range(20):
        write(log.parent / f"b.log-{number}", b"%d\n" % number)
        meanwhile(world)
        assert world.lines() == [str(number)]
        (log.parent / f"b.log-{number}").unlink()
    write(log, LONG + b"more\n")
    assert world.lines() == ["more"]
    assert set(world.cursors) == {str(log), *(str(log.parent / f"b.log-{number}") for number in range(20))}


@pytest.mark.parametrize("harm", ["delete", "cut", "replace"])
def test_lines_that_were_seen_and_are_nowhere_end_the_query(log: Path, meanwhile: Between, harm: str) -> None:
    world = World(log.parent / "a.log*", max_bytes_per_batch=1000)
    world.define()
    log.unlink()
    if harm != "delete":
        write(log, LONG[:1200] if harm == "cut" else b"new\n" * 2000)
    meanwhile(world)
    with pytest.raises(
        SpoutError, match=r"a.log', of which \d+ bytes were read and \d+ were seen, is not there any more"
    ):
        world.all()
    log.unlink(missing_ok=True)
    write(log.parent / "a.log.restored", LONG)
    world.restart()
    world.all()
    assert sum(len(world.rows(metadata)) for metadata in world.stored) >= 200


def test_a_copy_that_may_lack_what_was_read_is_named(log: Path) -> None:
    world = World(log.parent / "a.log*")
    world.lines()
    (log.parent / "a.log.1").write_bytes(LONG[:-50])
    log.write_bytes(b"new\n")
    with pytest.raises(
        SpoutError, match=r"'.*a.log.1' begins like it but ends before the bytes that were read of it.*move"
    ):
        world.lines()
    (log.parent / "a.log.1").rename(log.parent / "elsewhere")
    world.restart()
    assert world.lines() == ["new"]


def test_a_shorter_copy_is_named_after_a_restart_too(tmp_path: Path, meanwhile: Between) -> None:
    for text in (b"one\n", b"one line that is as long as sixty-four bytes, so that there is a hash of these\n" * 2):
        log = write(tmp_path / f"{len(text)}.log", text)
        world = World(f"{log}*")
        world.lines()
        shutil.copyfile(log, f"{log}.1")
        write(log, b"late\n")
        world.define()
        log.write_bytes(b"")
        meanwhile(world)
        with pytest.raises(SpoutError, match=r"log.1' begins like it but ends before the bytes that were read of it"):
            world.lines()


@pytest.mark.parametrize("is_the_same", [True, False])
def test_a_file_that_is_gone_and_a_new_one_with_its_few_bytes_end_the_query(
    tmp_path: Path, meanwhile: Between, is_the_same: bool
) -> None:
    log = write(tmp_path / "a.log", b"one\n")
    world = World(tmp_path / "*.log")
    world.lines()
    shutil.copyfile(log, tmp_path / "b.log")
    log.unlink()
    meanwhile(world)
    with pytest.raises(SpoutError, match=r"a.log', .* is not there any more, and the new file '.*b.log' begins with"):
        world.lines()
    if is_the_same:
        (tmp_path / "b.log").rename(log)
    else:
        write(log, b"one\n")
    world.restart()
    assert world.lines() == ([] if is_the_same else ["one"])


def test_a_new_file_is_not_held_back_while_one_with_the_same_header_is_deleted(
    tmp_path: Path, meanwhile: Between
) -> None:
    header = b"# a header of a log that is somewhat longer than sixty-four bytes, as a W3C log has\n"
    world = World(tmp_path / "a.log*")
    old = write(tmp_path / "a.log.1", header + LONG)
    log = write(tmp_path / "a.log", header + LONG.replace(b"line", b"Line"))
    world.lines()
    old.unlink()
    log.rename(old)
    write(log, header)
    meanwhile(world)
    given = []
    for number in range(4):
        write(log, b"%d\n" % number)
        given += [row[0] for rows in world.batches() for row in rows]
        world.pass_time(1.0)
    assert given == [*lines(header), "0", "1", "2", "3"]


def test_what_is_renamed_between_a_look_and_a_batch_is_not_read_for_another_file(tmp_path: Path) -> None:
    header, rows = b"# header\n" * 12, [b"%d\n" % number * 100 for number in range(2)]
    log = write(tmp_path / "a.log", header + rows[0])
    world = World(tmp_path / "a.log*", max_bytes_per_batch=len(header))
    world.define()
    log.rename(tmp_path / "a.log.1")
    write(log, header + rows[1])
    assert sorted(world.lines()) == sorted(lines(rows[0] + header + rows[1]))


def test_a_file_of_which_a_header_was_read_is_not_another_one_with_that_header(log: Path, meanwhile: Between) -> None:
    header = b"# header\n" * 200
    log.write_bytes(header + LONG)
    world = World(log, max_bytes_per_batch=len(header))
    world.define()
    log.unlink()
    write(log, header + LONG.replace(b"line", b"Line") * 2)
    meanwhile(world)
    with pytest.raises(SpoutError, match=r"a.log', of which 1800 bytes were read and 6290 were seen, is not there"):
        world.all()


def test_a_copy_is_found_under_a_name_that_another_file_had_before(log: Path) -> None:
    old = log.parent / "a.log.1"
    world = World(log, max_bytes_per_batch=1000)
    world.cursors = {str(old): 0}
    world.restart()
    world.define()
    shutil.copyfile(log, old)
    log.write_bytes(b"new\n")
    world.restart()
    assert len(world.lines()) + len(world.rows(world.stored[0])) == 201


def test_a_copy_is_found_among_many_new_files_with_the_same_first_kib(tmp_path: Path, meanwhile: Between) -> None:
    header = b"# header\n" * 200
    log = write(tmp_path / "z.log", header + LONG)
    world = World(tmp_path / "*.log")
    world.lines()
    shutil.copyfile(log, tmp_path / "y.log")
    log.write_bytes(b"")
    for number in range(12):
        write(tmp_path / f"{number:02}.log", header + b"%d\n" % number * 2000)
    meanwhile(world)
    assert len(world.lines()) == 12 * 2200


# --- what was defined is read wherever it is --------------------------------------------------------------------------


@pytest.mark.parametrize("small_bytes", [0, 1 << 20])
@pytest.mark.parametrize("rotation", ["rename", "copy", "pack", "outside"])
def test_a_batch_is_read_again_after_its_file_was_rotated(
    log: Path, rotation: str, small_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "SMALL_BYTES", small_bytes)
    world = World(log.parent / "*.log*", max_bytes_per_batch=1000)
    stored = [world.define(), world.define()]
    before = [world.rows(metadata) for metadata in stored]
    target = log.parent / ("other" if rotation == "outside" else "a.log.1")
    if rotation == "copy":
        shutil.copyfile(log, target)
        log.write_bytes(b"new\n" * 2000)
    else:
        log.rename(target)
        write(log, b"new\n" * 2000)
    if rotation == "pack":
        pack(target)
    world.restart()
    assert [world.coordinator.initialize_transaction(1, None, metadata) for metadata in stored] == stored
    assert [world.rows(metadata) for metadata in stored] == before


def test_a_batch_whose_file_is_nowhere_is_an_error_that_says_where_it_is_looked_for(log: Path) -> None:
    world = World(log.parent / "a.log*")
    metadata = world.define()
    log.write_bytes(b"new\n" * 2000)
    with pytest.raises(SpoutError, match=r"neither file '.*a.log' nor another one of its directory begins with the"):
        world.rows(metadata)


# --- positions of old versions ----------------------------------------------------------------------------------------


def test_positions_without_hashes_go_on_and_get_them(log: Path) -> None:
    size = len(LONG)
    other = write(log.parent / "b.log", LONG)
    packed = log.parent / "c.log.gz"
    packed.write_bytes(gzip.compress(LONG))
    cursors: dict[str, Any] = {str(log): size, str(other): [LONG.index(b"\n") + 1, size]}
    cursors[str(packed)] = packed.stat().st_size
    world = World(log.parent / "*.log*")
    world.cursors = cursors
    world.restart()
    assert world.lines() == lines(LONG)[1:]
    log.rename(log.parent / "a.log.1")
    write(log, b"new\n")
    write(packed, gzip.compress(b"more\n"))
    assert world.lines() == ["new", "more"]


def test_a_batch_of_an_old_version_is_read_as_it_was(log: Path) -> None:
    packed = log.parent / "c.log.gz"
    packed.write_bytes(gzip.compress(LONG))
    world = World(log.parent / "*.log*")
    metadata: Any = [[str(log), 0, 21, len(LONG)], [str(packed), 0, packed.stat().st_size]]
    assert [row[0] for row in world.rows(metadata)] == ["line 0 of a long log", *lines(LONG)]
    assert world.coordinator.moved(metadata) == {str(log): [21, len(LONG)], str(packed): packed.stat().st_size}


@pytest.mark.parametrize("size", [10, 30])
def test_a_position_without_hashes_that_fits_no_more_is_named(tmp_path: Path, size: int) -> None:
    log = write(tmp_path / "a.log", b"x" * 9 + b"\n")
    world = World(tmp_path / "*.log")
    world.cursors = {str(log): 20}
    world.restart()
    with pytest.raises(SpoutError, match="stored by an old version"):
        world.lines()
