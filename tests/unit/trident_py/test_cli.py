"""The command line: what it accepts and refuses, and with which exit code. What needs a server is in integration."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinators.backends.zookeeper.access import ZooKeeperAccess, ZooKeeperTLS
from trident_py.cli import doctor, main
from trident_py.cli.app import _parser
from trident_py.cli.doctor import _java, _numbers, _requirement, _satisfies, _state_dir, _workers
from trident_py.cli.target import load
from trident_py.cli.usage import UsageError, config_of
from trident_py.errors import TopologyError

COMMANDS = [
    "run",
    "demo",
    "status",
    "script",
    "doctor",
    "explain",
    "compact",
    "pause",
    "resume",
    "drain",
    "rate",
    "request",
    "tx",
    "ui",
    "watch",
    "reset",
]


@pytest.fixture
def imports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A current directory to write modules into, that are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file is None or Path(file).is_relative_to(tmp_path):
            del sys.modules[name]


def declare(path: Path, *names: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{name} = TridentTopology({name.replace('_', '-')!r})" for name in names]
    path.write_text("\n".join(["from trident_py import TridentTopology", *lines, "number = 7", ""]))


# --- the words --------------------------------------------------------------------------------------------------------


def test_without_a_command_there_is_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("usage: trident")
    assert all(command in shown for command in COMMANDS)


def test_a_command_that_is_mistyped_is_told_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rnu", "words.py"]) == 2
    assert capsys.readouterr().err == "trident: there is no command 'rnu'; did you mean run?\n"


@pytest.mark.parametrize(
    "words", [["nonsense"], ["run"], ["status", "a", "b"], ["run", "x:y", "--max-spout-pending=x"]]
)
def test_words_that_make_no_sense_are_a_usage_error(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "usage: trident" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--help"], ["--version"], *([command, "--help"] for command in COMMANDS)])
def test_help_is_a_success(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    assert capsys.readouterr().out.startswith(("usage: trident", "trident 0."))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--max-spout-pending", "0"], "max_spout_pending must be a whole number of at least 1, not 0"),
        (["--root", "trident"], "root must be an absolute ZooKeeper path"),
        (["--zookeeper", " "], "zookeeper must be 'host:port"),
    ],
)
def test_an_option_out_of_range_is_a_usage_error(
    option: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "x.py:topology", *option]) == 2
    assert capsys.readouterr().err.startswith(f"trident: {message}")


# --- trident script ---------------------------------------------------------------------------------------------------


def test_a_script_prints_what_is_emitted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "script").write_text("max 2\nstart\nack 1:0\nack 1:0\nshow\n")
    assert main(["script", str(tmp_path / "script")]) == 0
    assert capsys.readouterr() == (
        "BATCH 1:0\nBATCH 2:0\nCOMMIT 1:0\nSUCCESS 1:0\nBATCH 3:0\ncurrtx=2 attempts={2:0,3:0}\n",
        "",
    )


def test_a_script_with_an_error_prints_nothing_but_that(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "script").write_text("start\n\nfoo\n")
    assert main(["script", str(tmp_path / "script")]) == 2
    assert capsys.readouterr() == ("", "line 3: unknown step 'foo'\n")


def test_a_script_may_be_a_pipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"start\n# \xff\n")
    os.close(writing)
    assert main(["script", f"/dev/fd/{reading}"]) == 0
    os.close(reading)
    assert capsys.readouterr().out == "BATCH 1:0\n"


def test_a_script_may_come_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"start\r\n")))
    assert main(["script", "-"]) == 0
    assert capsys.readouterr().out == "BATCH 1:0\n"


@pytest.mark.parametrize("file", ["there/is/none", "."])
def test_a_script_that_cannot_be_read_is_a_usage_error(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["script", file]) == 2
    assert capsys.readouterr().err.startswith(f"trident: can't read {file}: ")


def test_whoever_reads_the_output_may_stop_reading(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("max 400\n" + "start\n" * 40)
    command = [sys.executable, "-c", "from trident_py.cli import main; raise SystemExit(main())", "script"]
    with subprocess.Popen(
        [*command, str(tmp_path / "script")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "BATCH 1:0\n"
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 1


# --- targets ----------------------------------------------------------------------------------------------------------


def test_a_file_is_a_target_and_travels_alone(imports: Path) -> None:
    declare(imports / "elsewhere" / "words.py", "topology")
    target = load("elsewhere/words.py:topology")
    assert target.topology.name == "topology"
    assert target.code == imports / "elsewhere" / "words.py"


def test_a_module_of_a_package_travels_with_the_whole_package(imports: Path) -> None:
    declare(imports / "shop" / "orders.py", "per_hour")
    (imports / "shop" / "__init__.py").touch()
    target = load("shop.orders:per_hour")
    assert target.topology.name == "per-hour"
    assert target.code == imports / "shop"


def test_a_package_needs_no_init_file(imports: Path) -> None:
    declare(imports / "bare" / "orders.py", "per_hour")
    assert load("bare.orders:per_hour").code == imports / "bare"


@pytest.mark.parametrize("target", [":topology", "words.py:", "words:", ""])
def test_a_target_names_a_place_and_a_topology(target: str) -> None:
    with pytest.raises(UsageError, match=r"write module:topology or file\.py:topology"):
        load(target)


@pytest.mark.parametrize(("place", "what"), [("gone.py", "no file gone.py"), ("gone", "no module 'gone'")])
def test_a_place_that_does_not_exist_is_named(imports: Path, place: str, what: str) -> None:
    with pytest.raises(UsageError, match=f"there is {what}"):
        load(f"{place}:topology")


def test_a_topology_that_does_not_exist_is_named_with_those_that_do(imports: Path) -> None:
    declare(imports / "several.py", "one", "two")
    with pytest.raises(UsageError, match=r"'three' in several\.py does not exist; there is one, two"):
        load("several.py:three")
    with pytest.raises(UsageError, match=r"'number' in several\.py is no TridentTopology; there is one, two"):
        load("several.py:number")


def test_a_file_that_raises_is_named_with_its_error(imports: Path) -> None:
    (imports / "broken.py").write_text("1 / 0\n")
    with pytest.raises(TopologyError) as error:
        load("broken.py:topology")
    assert str(error.value) == "broken.py can't be imported: ZeroDivisionError: division by zero (broken.py, line 1)"


def test_what_the_standard_library_raises_is_told_with_the_line_that_asked(imports: Path) -> None:
    (imports / "setting.py").write_text("import os\n\nDSN = os.environ['THERE_IS_NO_SUCH_VARIABLE']\n")
    with pytest.raises(TopologyError, match=r"KeyError: 'THERE_IS_NO_SUCH_VARIABLE' \(setting\.py, line 3\)"):
        load("setting.py:topology")
    (imports / "garbled.py").write_text("x = 1\ny = (\n")
    with pytest.raises(TopologyError, match=r"SyntaxError: .* \(garbled\.py, line 2\)$"):
        load("garbled.py")


def test_the_only_topology_of_a_place_needs_no_name(imports: Path) -> None:
    declare(imports / "alone.py", "words")
    with (imports / "alone.py").open("a") as file:
        file.write("the_same = words\n")
    assert load("alone.py").topology.name == "words"
    assert load("alone").topology.name == "words"
    declare(imports / "several.py", "one", "two")
    with pytest.raises(UsageError, match=r"name the topology of several\.py: several\.py:one or several\.py:two"):
        load("several.py")
    (imports / "nothing.py").touch()
    with pytest.raises(UsageError, match=r"there is no topology in nothing\.py"):
        load("nothing.py")


def test_a_module_that_lacks_a_library_names_the_library(imports: Path) -> None:
    (imports / "lacking.py").write_text("import there_is_no_such_library\n")
    with pytest.raises(TopologyError, match=r"lacking\.py needs the module 'there_is_no_such_library'"):
        load("lacking.py:topology")


def test_a_wrong_declaration_keeps_its_own_error(imports: Path) -> None:
    (imports / "wrong.py").write_text("from trident_py import TridentTopology\ntopology = TridentTopology('No Good')\n")
    with pytest.raises(TopologyError, match="a topology's name is made of lower-case letters"):
        load("wrong.py:topology")


def test_a_file_whose_name_is_taken_is_refused(imports: Path) -> None:
    declare(imports / "json.py", "topology")
    with pytest.raises(UsageError, match=r"json\.py is hidden by another module of that name"):
        load("json.py:topology")


def test_a_file_that_workers_cannot_import_is_refused(imports: Path) -> None:
    declare(imports / "word-count.py", "topology")
    with pytest.raises(UsageError, match="its name must be a Python identifier"):
        load("word-count.py:topology")


def test_explain_prints_the_plan(imports: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (imports / "plain.py").write_text(
        "from trident_py import FixedBatchSpout, TridentTopology\n"
        "topology = TridentTopology('plain')\n"
        "topology.new_stream('rows', FixedBatchSpout('n bigint', 2, (1,), (2,))).filter(lambda row: row.n > 1)\n"
    )
    assert main(["explain", "plain.py:topology"]) == 0
    assert capsys.readouterr().out.startswith("topology plain\n")


def test_a_failure_is_one_line_and_a_traceback_only_on_request(
    imports: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (imports / "raising.py").write_text("raise KeyError('x')\n")
    assert main(["explain", "raising.py:topology"]) == 1
    assert capsys.readouterr().err == "trident: raising.py can't be imported: KeyError: 'x' (raising.py, line 1)\n"
    assert main(["explain", "raising.py:topology", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


# --- demo -------------------------------------------------------------------------------------------------------------


def test_a_state_directory_that_cannot_be_made_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["demo", "--state-dir", str(tmp_path / "file" / "state")]) == 1
    assert f"the state directory {tmp_path / 'file' / 'state'} can't be made" in capsys.readouterr().err


def test_the_demo_of_kafka_takes_no_place_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--kafka", "--state-dir", str(tmp_path)]) == 2
    assert "it doesn't accept --state-dir" in capsys.readouterr().err


# --- status and reset where nothing ran -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", [["status"], ["status", "wordcount"], ["pause", "wordcount"], ["reset", "wordcount", "--yes"]]
)
def test_where_no_topology_ran_there_is_nothing_to_show(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--state-dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(f"trident: no topology has run here: there is no {tmp_path}/zookeeper")


# --- trident doctor ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "clause", "ok"),
    [
        ("2.3.3", "<3", True),
        ("3.0.0", "<3", False),
        ("3.0.0rc1", "<3", False),
        ("2.2", ">=2.2", True),
        ("2.10.0", ">=2.9", True),
        ("2.1.9", ">=2.2", False),
        ("4.1.0+local", ">=4.1", True),
        ("1.0", "==1.0", True),
    ],
)
def test_versions_are_compared_as_numbers(found: str, clause: str, ok: bool) -> None:
    assert _satisfies(found, clause) is ok


def test_what_is_wanted_is_what_our_own_package_asks_for() -> None:
    assert _requirement("pandas") == ">=2.2,<3"
    assert _numbers("25.1.0") == (25, 1, 0)


def test_a_java_home_without_java_is_a_problem_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    finding = _java()
    assert not finding.ok
    assert "correct JAVA_HOME, which is /nowhere" in finding.remedy


@pytest.mark.parametrize("answer", ["", 'openjdk version "11.0.2" 2019-01-15', "exec format error"])
def test_a_java_that_is_too_old_or_broken_is_a_problem(
    answer: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text(f"#!/bin/sh\necho '{answer}' >&2\n")
    (tmp_path / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert not _java().ok


def test_workers_with_another_python_or_without_libraries_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert _workers().ok
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert _workers().ok
    monkeypatch.setenv("PYSPARK_PYTHON", "/nowhere/python")
    assert not _workers().ok
    assert "unset PYSPARK_PYTHON" in _workers().remedy


def test_a_state_directory_may_be_made_but_not_be_a_file(tmp_path: Path) -> None:
    assert _state_dir(tmp_path / "a" / "b").ok
    (tmp_path / "file").touch()
    finding = _state_dir(tmp_path / "file" / "b")
    assert not finding.ok
    assert f"make {tmp_path / 'file'} a writable directory" in finding.remedy


def test_a_state_directory_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not _state_dir(Path("/proc/x")).ok  # where even root, whom nothing is forbidden, can make none
    monkeypatch.setattr(doctor, "FREE_BYTES_MIN", 2**80)
    finding = _state_dir(tmp_path)
    assert not finding.ok
    assert "free some space" in finding.remedy
    assert not list(tmp_path.iterdir())


def test_doctor_reports_a_problem_with_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert main(["doctor", "--json"]) == 1
    findings = {finding["name"]: finding for finding in json.loads(capsys.readouterr().out)}
    assert findings["python"]["ok"]
    assert not findings["java"]["ok"]
    assert not findings["zookeeper"]["ok"]
    assert "JAVA_HOME" in findings["zookeeper"]["remedy"]


# --- access to ZooKeeper ----------------------------------------------------------------------------------------------


def test_how_zookeeper_lets_us_in_is_taken_from_options_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIDENT_ZOOKEEPER_AUTH", "anna:hush")
    monkeypatch.setenv("TRIDENT_ZOOKEEPER_KEY_PASSWORD", "lock")
    words = ["--zookeeper", "a:1", "--zookeeper-ca=ca.pem", "--zookeeper-cert=c.pem", "--zookeeper-key=k.pem"]
    for command in (["run", "x.py:topology"], ["status"], ["doctor"], ["reset", "x"], ["demo"]):
        config = config_of(_parser().parse_args([*command, *words]))
        tls = ZooKeeperTLS(ca_file="ca.pem", cert_file="c.pem", key_file="k.pem", key_password="lock")  # noqa: S106
        assert config.zookeeper_access == ZooKeeperAccess(login="anna:hush", tls=tls)
    assert config_of(_parser().parse_args(["status"])).zookeeper_auth is None  # not for the embedded server


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--zookeeper=a:1", "--zookeeper-cert=c.pem"], "--zookeeper-ca switches it on"),
        (["--zookeeper=a:1", "--zookeeper-ca=ca.pem", "--zookeeper-key=k.pem"], "go together"),
        (["--zookeeper-ca=ca.pem"], "for the servers that `zookeeper` names"),
    ],
)
def test_half_of_an_access_is_a_usage_error(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", *options]) == 2
    assert message in capsys.readouterr().err


def test_a_login_that_is_none_is_not_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TRIDENT_ZOOKEEPER_AUTH", "hush")
    assert main(["status", "--zookeeper=a:1"]) == 2
    shown = capsys.readouterr().err
    assert "must be 'user:password'" in shown
    assert "hush" not in shown
