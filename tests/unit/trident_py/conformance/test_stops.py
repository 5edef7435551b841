"""The lines that count are those of the user's code, wherever that is written."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trident_py import SQLiteState
from trident_py.conformance.play import Call
from trident_py.conformance.stops import Line, Stepper, Way, files_of, is_users

STORE = "def put(path, rows):\n    import json\n    path.write_text(json.dumps(rows))\n    return len(rows)\n"
SINK = "from {package}.store import put\n\n\nclass Sink:\n    def commit(self, path):\n        return put(path, [1])\n"


def reached(call: Callable[[], Any], *things: object) -> set[tuple[str, int]]:
    stepper = Stepper(files_of(*things), None, lambda *_: None, lambda: None)
    with stepper.following(()):
        call()
    return {(Path(line.file).name, line.number) for line in stepper.lines()}


@pytest.mark.parametrize("package", ["shop", "shops.east"])
def test_all_modules_of_a_package_count_and_nothing_of_python(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path.joinpath(*package.split("."))
    directory.mkdir(parents=True)
    (directory / "store.py").write_text(STORE)
    (directory / "sink.py").write_text(SINK.format(package=package))
    monkeypatch.syspath_prepend(str(tmp_path))
    module = __import__(f"{package}.sink", fromlist=["Sink"])
    sink = module.Sink()
    found = reached(lambda: sink.commit(tmp_path / "rows"), sink)
    assert {each for each in found if each[0] != Path(__file__).name} == {
        ("sink.py", 6), ("store.py", 2), ("store.py", 3), ("store.py", 4),
    }  # fmt: skip
    for name in [each for each in sys.modules if each.split(".")[0] == package.split(".")[0]]:
        del sys.modules[name]


def test_a_class_within_a_function_counts_with_the_functions_that_it_closes_over() -> None:
    def twice(number: int) -> int:
        return 2 * number

    class Local:
        commit = staticmethod(lambda: twice(2))

    first = twice.__code__.co_firstlineno
    assert {number for _, number in reached(Local.commit, Local())} >= {first + 1, first + 4}


def test_lines_that_load_an_installed_module_are_nobodys_and_those_of_its_functions_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site-packages" / "storefront" / "east"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "store.py").write_text(STORE)
    (package / "sink.py").write_text(
        "class Sink:\n"
        "    def commit(self, path):\n"
        "        from storefront.east.store import put\n"
        "        put(path, [])\n"
    )
    monkeypatch.syspath_prepend(str(package.parents[1]))
    sink = __import__("storefront.east.sink", fromlist=["Sink"]).Sink()
    found = reached(lambda: sink.commit(tmp_path / "rows"), sink)
    assert {each for each in found if each[0] != Path(__file__).name} == {
        ("sink.py", 3), ("sink.py", 4), ("store.py", 2), ("store.py", 3), ("store.py", 4),
    }  # fmt: skip
    for name in [each for each in sys.modules if each.split(".")[0] == "storefront"]:
        del sys.modules[name]


def test_what_a_thread_does_after_the_call_that_started_it_belongs_to_no_call() -> None:
    ended = threading.Event()
    lines: list[object] = []

    def beats() -> None:
        ended.wait()
        lines.append("after")

    stepper = Stepper((), None, lambda file, line, dies: lines.append(line), lambda: None)
    with stepper.following(()):
        thread = threading.Thread(target=beats)
        thread.start()
    seen = len(lines)
    ended.set()
    thread.join()
    assert lines[seen:] == ["after"]


def test_a_line_is_stopped_at_the_first_time_only_or_at_the_second_and_last_too() -> None:
    call = Call("commit", [Line("sink.py", 5, times=4)])
    once, again = (list(call.stops(Way.KILL, again=each)) for each in (False, True))
    assert [stop.nth for stop in once if stop.line] == [1]
    assert [stop.nth for stop in again if stop.line] == [1, 2, 4]


def test_the_library_and_what_is_installed_are_nobodys_own() -> None:
    assert is_users(__file__)
    assert not any(
        map(is_users, [json.__file__, pytest.__file__, sys.modules["trident_py"].__file__ or "", "<string>"])
    )


def test_of_what_is_shipped_its_own_package_counts(tmp_path: Path) -> None:
    assert [Path(each).name for each in files_of(SQLiteState(tmp_path / "counts.db", table="counts"))][-1:] == ["sql"]
