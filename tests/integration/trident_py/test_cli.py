"""The command line with real servers behind it, and with Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from attrs import evolve

from coordinators.backends.zookeeper.leadership import lead
from coordinators.record.record import CoordinatorRecord, Failure
from coordinators.values.cursors import Cursors
from tests.topologies import TRIDENT, read_until
from trident_py.cli import main

RECORD = CoordinatorRecord(
    epoch=1,
    seq=9,
    current_txid=7,
    attempt_ids={7: 2, 8: 0},
    metadata={7: {"lines": 1}},
    states={"counts": 1},
    cursors={"lines": Cursors().updated({"a.txt": 10})},
    success_upto=6,
)


# --- status and reset -------------------------------------------------------------------------------------------------


@pytest.fixture
def stopped(zookeeper: str) -> str:
    """Servers that know a topology which is not running."""
    store = lead("wordcount", hosts=zookeeper)
    store.write(evolve(RECORD, epoch=store.epoch))
    store.close()
    return zookeeper


@pytest.mark.zookeeper
def test_status_shows_all_topologies(stopped: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--zookeeper", stopped]) == 0
    assert re.search(r"^wordcount +not running +1 +6 +7:2 8:0 *$", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.zookeeper
def test_after_a_halt_status_says_which_transaction_has_failed_and_why(
    zookeeper: str, capsys: pytest.CaptureFixture[str]
) -> None:
    failure = Failure(5, 2, "ValueError: 'three'", since=1000.0, last=1060.0, tries=6)
    store = lead("wordcount", hosts=zookeeper)
    store.write(evolve(RECORD, epoch=store.epoch, failures={7: failure}))
    store.close()
    for words in (["status"], ["status", "wordcount"]):
        assert main([*words, "--zookeeper", zookeeper]) == 0
        out = capsys.readouterr().out
        assert "failed 1970-01-01" in out
        assert "transaction 7, tried 6 times since 1970-01-01" in out
        assert "ValueError: 'three'\n" in out
        assert "batch of spout 'lines': 1\n" in out
        assert "start the topology again: it continues with transaction 7" in out


@pytest.mark.zookeeper
def test_status_of_one_topology_names_its_leader(zookeeper: str, capsys: pytest.CaptureFixture[str]) -> None:
    store = lead("wordcount", hosts=zookeeper)
    assert main(["status", "wordcount", "--zookeeper", zookeeper]) == 0
    store.close()
    out = capsys.readouterr().out
    assert f"pid {os.getpid()} on " in out
    assert "committed:     0 transactions" in out


@pytest.mark.zookeeper
def test_status_can_be_read_by_programs(stopped: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "wordcount", "--json", "--zookeeper", stopped]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["leader"] is None
    assert (facts["current_txid"], facts["attempt_ids"]) == (7, {"7": 2, "8": 0})
    assert main(["status", "--json", "--zookeeper", stopped]) == 0
    assert json.loads(capsys.readouterr().out) == [facts]


@pytest.mark.zookeeper
def test_where_nothing_was_started_status_says_so(zookeeper: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--zookeeper", zookeeper]) == 0
    assert capsys.readouterr().out.startswith("no topology was ever started under /trident at ")


@pytest.mark.zookeeper
@pytest.mark.parametrize("command", [["status"], ["reset", "--yes"]])
def test_a_topology_that_does_not_exist_is_named_with_those_that_do(
    command: list[str], stopped: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "wordcuont", "--zookeeper", stopped]) == 1
    assert "there is no topology 'wordcuont' under /trident" in capsys.readouterr().err


@pytest.mark.zookeeper
def test_a_reset_says_what_it_forgets_and_does_it(stopped: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reset", "wordcount", "--yes", "--zookeeper", stopped]) == 0
    out = capsys.readouterr().out
    assert "6 committed transactions, 2 in flight, the positions of lines" in out
    assert out.endswith("topology 'wordcount' starts over, as incarnation 2\n")
    assert main(["status", "wordcount", "--json", "--zookeeper", stopped]) == 0
    assert json.loads(capsys.readouterr().out)["committed"] == 0


@pytest.mark.zookeeper
@pytest.mark.parametrize(("answer", "status"), [("wordcount\n", 0), ("yes\n", 1), ("", 1)])
def test_a_reset_asks_for_the_name(answer: str, status: int, stopped: str) -> None:
    done = subprocess.run(
        [*TRIDENT, "reset", "wordcount", "--zookeeper", stopped], input=answer, text=True, capture_output=True
    )
    assert done.returncode == status
    assert ("nothing was changed" in done.stdout) is (status == 1)


@pytest.mark.zookeeper
def test_a_topology_that_runs_is_not_reset(zookeeper: str, capsys: pytest.CaptureFixture[str]) -> None:
    store = lead("wordcount", hosts=zookeeper)
    assert main(["reset", "wordcount", "--yes", "--zookeeper", zookeeper]) == 1
    store.close()
    assert "stop it first, then try again" in capsys.readouterr().err


@pytest.mark.zookeeper
def test_doctor_finds_the_servers(zookeeper: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", "--zookeeper", zookeeper])
    assert re.search(r"^ok +zookeeper +.* answers and knows 0 topologies$", capsys.readouterr().out, re.MULTILINE)


# --- demo and run -----------------------------------------------------------------------------------------------------


def words_of(directory: Path) -> Counter[str]:
    texts = (path.read_bytes().decode(errors="replace") for path in sorted(directory.rglob("*.py")))
    return Counter(word for text in texts for word in re.findall(r"\w+", text))


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.zookeeper
def test_the_demo_counts_what_is_there_and_then_only_what_is_new(zookeeper: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "site-packages").mkdir(parents=True)
    (source / "site-packages" / "installed.py").write_text("not counted\n")
    (source / "one.py").write_bytes(b"# caf\xe9\nimport this\n")
    command = [*TRIDENT, "demo", "--source", str(source), "--zookeeper", zookeeper, "--state-dir", str(tmp_path)]
    first = subprocess.run(command, text=True, capture_output=True, check=True)
    assert "some of these files are not UTF-8" in first.stderr
    assert "\n3 words, 3 different ones.\n" in first.stdout
    assert f"{tmp_path / 'demo.db'}, table counts" in first.stdout

    (source / "two.py").write_text("import that\n" * 3)
    second = subprocess.run([*command, "--json"], text=True, capture_output=True, check=True)
    assert "earlier runs have counted 3 words" in second.stderr
    assert f"trident reset demo --zookeeper {zookeeper} --state-dir {tmp_path}" in second.stderr
    facts = json.loads(second.stdout)
    assert facts["top"]["import"] == 4
    assert facts["committed_transactions"] == 1
    (source / "site-packages" / "installed.py").unlink()
    with closing(sqlite3.connect(tmp_path / "demo.db")) as connection:
        assert dict(connection.execute("SELECT word, count FROM counts")) == words_of(source)


ENDLESS = """
from trident_py import FixedBatchSpout, TridentTopology

def wait(row):
    with open({fifo!r}) as fifo:
        fifo.read()

topology = TridentTopology("endless")
topology.new_stream("numbers", FixedBatchSpout("n bigint", 1, (1,), (2,), cycle=True)).peek({function})
"""


TALKATIVE = [
    sys.executable,
    "-c",
    "from trident_py.cli import main, watch; watch.LINE_SECONDS = 0.1; raise SystemExit(main())",
]
"""The command `trident`, with a line for each change of its progress."""


@contextmanager
def running(
    directory: Path, zookeeper: str, function: str, *, start_new_session: bool = False
) -> Iterator[subprocess.Popen[str]]:
    """``trident run`` of a topology that never comes to an end by itself."""
    os.mkfifo(directory / "fifo")
    (directory / "endless.py").write_text(ENDLESS.format(fifo=str(directory / "fifo"), function=function))
    command = [*TALKATIVE, "run", str(directory / "endless.py:topology"), "--zookeeper", zookeeper]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=start_new_session
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.spark
@pytest.mark.zookeeper
def test_the_first_ctrl_c_lets_what_is_under_way_commit(
    zookeeper: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(tmp_path, zookeeper, "lambda row: None") as process:
        read_until(process, r"^endless  .*  [1-9]\d* transaction")
        below = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert process.returncode == 0, err
    assert "stopping when what is being processed is committed" in err
    assert out.startswith("endless: ")
    assert psutil.wait_procs(below, 30)[1] == [], "Spark's JVM ends with the driver"
    main(["status", "endless", "--json", "--zookeeper", zookeeper])
    facts = json.loads(capsys.readouterr().out)
    assert facts["leader"] is None
    assert facts["attempt_ids"] == {}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.zookeeper
@pytest.mark.parametrize("mode", ["mixed", "control-group", "process-group"])
def test_sigterm_lets_what_is_under_way_commit_however_a_service_manager_sends_it(
    mode: str, zookeeper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As systemd does with ``KillMode=mixed``, and by default, and as ``timeout`` does."""
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.extraJavaOptions -Dof.the=user\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    with running(tmp_path, zookeeper, "lambda row: None", start_new_session=True) as process:
        read_until(process, r"^endless  .*  [1-9]\d* transaction")
        main_process = psutil.Process(process.pid)
        below = main_process.children(recursive=True)
        assert any("-Dof.the=user" in each.cmdline() for each in below), "our own options of the JVM leave the user's"
        if mode == "process-group":
            os.killpg(process.pid, signal.SIGTERM)
        else:
            main_process.send_signal(signal.SIGTERM)
            for each in below if mode == "control-group" else []:
                with suppress(psutil.NoSuchProcess):  # Python workers come and go
                    each.send_signal(signal.SIGTERM)
        out, err = process.communicate()
    assert process.returncode == 0, err
    assert "stopping when what is being processed is committed" in err
    assert out.startswith("endless: ")
    assert psutil.wait_procs(below, 30)[1] == [], "Spark's JVM ends with the driver"


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.zookeeper
def test_ctrl_c_while_spark_starts_is_one_line(zookeeper: str, tmp_path: Path) -> None:
    with running(tmp_path, zookeeper, "lambda row: None") as process:
        read_until(process, r"(starting Spark)")
        while not any(each.name() == "java" for each in psutil.Process(process.pid).children()):
            pass
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 1
    assert err.splitlines()[-1] == "trident: interrupted"
    assert "Traceback" not in err


FAILING = """
from trident_py import FixedBatchSpout, TridentTopology

topology = TridentTopology("failing")
topology.new_stream("numbers", FixedBatchSpout("n bigint", 1, (1,))).map(lambda row: (1 // (row.n - 1),), "m bigint")
"""


@pytest.mark.spark
@pytest.mark.zookeeper
def test_what_ends_a_topology_is_told_once_and_without_a_traceback(zookeeper: str, tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    target = str(tmp_path / "failing.py:topology")
    told = tmp_path / "told.json"
    calls = shlex.join(["sh", "-c", f"cat > {shlex.quote(str(told))}; echo $TRIDENT_ERROR of $TRIDENT_TXID >&2"])
    command = [*TRIDENT, "run", target, "--zookeeper", zookeeper, "--on-halt", calls]
    done = subprocess.run(command, text=True, capture_output=True)
    assert (done.returncode, done.stdout) == (3, "")
    assert "\nPoisonBatchError of 1\n" in done.stderr
    facts = json.loads(told.read_text())
    known = ("topology", "error", "txid", "attempt", "exit_code")
    assert [facts[name] for name in known] == ["failing", "PoisonBatchError", 1, "1:4", 3]
    assert re.findall(r"^trident: topology 'failing': transaction 1 failed 5 times, .*$", done.stderr, re.MULTILINE)
    assert done.stderr.count("failed 5 times") == 1
    assert "incubator modules" not in done.stderr
    assert "Traceback" not in done.stderr


RAISING = """
from trident_py import FixedBatchSpout, TridentTopology

class Lines(FixedBatchSpout):
    def get_emitter(self, *_):
        raise {error}

topology = TridentTopology("raising")
topology.new_stream("lines", Lines("line string", 1, ("to",))).peek(lambda row: None)
"""


@pytest.mark.spark
@pytest.mark.zookeeper
@pytest.mark.local
@pytest.mark.parametrize(
    ("error", "name"),
    [
        ("ConnectionError('refused: ' + chr(27) + '[31m' + chr(0) + 'x' * 100_000)", "ConnectionError"),
        ("BrokenPipeError('of a client')", "BrokenPipeError"),
        ("SystemExit(0)", "SystemExit"),
    ],
)
@pytest.mark.usefixtures("spark")  # in its session
def test_an_error_of_any_class_that_ends_a_start_is_told_and_is_the_last_line(
    zookeeper: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: str,
    name: str,
) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "")  # and have no later JVM keep what the command sets
    program = tmp_path / f"raising_a_{name.lower()}.py"
    program.write_text(RAISING.format(error=error))
    told = tmp_path / "told.json"
    calls = shlex.join(["sh", "-c", f"cat > {shlex.quote(str(told))}"])
    assert main(["run", str(program), "--zookeeper", zookeeper, "--on-halt", calls]) == 1
    facts = json.loads(told.read_text())
    assert [facts[each] for each in ("topology", "error", "exit_code")] == ["raising", name, 1]
    said = capfd.readouterr().err
    last = said.splitlines()[-1]
    assert last.startswith(f"trident: {name}: ")
    assert last == f"trident: {facts['message']}"
    assert len(last) < 5000
    assert "in get_emitter" in said
    assert "\x1b" not in said


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.zookeeper
@pytest.mark.local
def test_a_program_without_a_session_of_its_own_has_our_line_for_a_failed_attempt_and_no_java_trace(
    zookeeper: str, tmp_path: Path
) -> None:
    start = (
        f"from trident_py import RetryPolicy, TridentConfig\n"
        f"config = TridentConfig(zookeeper={zookeeper!r}, retry=RetryPolicy(attempts=2, backoff=0.01))\n"
        f"with topology.start(config) as query:\n"
        f"    query.await_termination()\n"
    )
    (tmp_path / "failing_program.py").write_text(f"{FAILING}\n{start}")
    done = subprocess.run([sys.executable, "failing_program.py"], text=True, capture_output=True, cwd=tmp_path)
    assert "topology failing: 1:0 failed, next try in" in done.stderr
    assert "\tat org.apache.spark" not in done.stderr


LOGGING = """
import logging
from trident_py import Count, ForeachBatchSink, FixedBatchSpout, TridentTopology

def write(frame, tx):
    rows = frame.count()
    logging.getLogger("mine").warning("%d rows", rows)
    if tx.attempt.txid == 2:
        raise ValueError("no room")

topology = TridentTopology("logging")
topology.new_stream("numbers", FixedBatchSpout("n bigint", 1, (1,), (2,))).write_to(ForeachBatchSink(write))
"""


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.zookeeper
@pytest.mark.parametrize("options", [[], pytest.param(["--debug"], marks=pytest.mark.slow)], ids=["", "debug"])
def test_all_of_a_json_log_is_json_and_says_what_it_is_about(
    zookeeper: str, tmp_path: Path, options: list[str]
) -> None:
    (tmp_path / "logging_topology.py").write_text(LOGGING)
    target = str(tmp_path / "logging_topology.py:topology")
    command = [*TRIDENT, "run", target, "--zookeeper", zookeeper, "--log-format", "json", *options]
    done = subprocess.run(command, text=True, capture_output=True, cwd=tmp_path)
    assert done.returncode == 3
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert all({"time", "level", "logger", "message"} <= each.keys() for each in lines)
    about = [(each.get("topology"), each.get("epoch"), each.get("txid"), each.get("attempt")) for each in lines]
    users = [what for each, what in zip(lines, about, strict=True) if each["logger"] == "mine"]
    assert users == [("logging", 1, 1, "1:0"), *(("logging", 1, 2, f"2:{attempt}") for attempt in range(5))]
    failures = [
        what for each, what in zip(lines, about, strict=True) if each["logger"] == "coordinators.batches.failures"
    ]
    assert failures == [("logging", 1, 2, f"2:{attempt}") for attempt in range(4)]
    steps = [each for each in lines if each["message"] == "topology logging: starting Spark"]
    assert [each["topology"] for each in steps] == ["logging"]
    last = lines[-1]
    assert (last["level"], last["topology"], last["txid"], last["attempt"]) == ("ERROR", "logging", 2, "2:4")
    assert last["message"].startswith("topology 'logging': transaction 2 failed 5 times")
    assert "ValueError: no room" in last["traceback"]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.zookeeper
def test_a_second_signal_stops_at_once(zookeeper: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running(tmp_path, zookeeper, "wait") as process:
        for step in ("connecting to ZooKeeper", "starting Spark", "taking over"):
            read_until(process, f"^topology endless: {step}$")
        read_until(process, r"^endless  processing  1 .* 0 transactions")
        process.send_signal(signal.SIGTERM)
        read_until(process, "Ctrl-C again to stop now")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 1
    assert "what is not committed is processed again next time" in err
    main(["status", "endless", "--json", "--zookeeper", zookeeper])
    facts = json.loads(capsys.readouterr().out)
    assert (facts["leader"], facts["committed"], facts["attempt_ids"]["1"]) == (None, 0, 0)
