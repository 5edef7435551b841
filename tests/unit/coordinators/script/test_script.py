"""`trident script`: the golden traces, and what is no script."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinators.protocol.protocol import StreamId
from coordinators.script.script import (
    Ack,
    Crash,
    Fail,
    Next,
    Pause,
    Resume,
    ScriptDriver,
    ScriptError,
    SetConsumers,
    SetMax,
    SetReady,
    Show,
    Start,
    parse,
    run_script,
)
from coordinators.values.attempt import TransactionAttempt

TRACES = sorted((Path(__file__).parents[3] / "storm_traces").glob("*.txt"))


def expected_by_line(text: str) -> list[tuple[str, list[str]]]:
    dialogue = []
    for line in text.splitlines():
        step, _, comment = line.partition("#")
        lines = comment.removeprefix(" -> ").split("; ") if comment.startswith(" -> ") else []
        if step.strip():
            dialogue.append((step.strip(), lines))
    return dialogue


@pytest.mark.parametrize("trace", TRACES, ids=lambda path: path.stem)
def test_a_golden_trace_comes_out_line_by_line(trace: Path) -> None:
    text = trace.read_text()
    driver = ScriptDriver()
    played = [(line, list(driver.play(parse(line)))) for line, _ in expected_by_line(text)]
    assert played == expected_by_line(text)


@pytest.mark.parametrize("trace", TRACES, ids=lambda path: path.stem)
def test_a_whole_script_gives_what_its_steps_give_one_by_one(trace: Path) -> None:
    text = trace.read_text()
    assert list(run_script(text)) == [line for _, lines in expected_by_line(text) for line in lines]


def test_every_step_has_its_form() -> None:
    text = """
        start  # comment
        next
        ack 1:0
        fail 20:3
        ready on
        ready off
        ready 3 off
        pause
        resume
        max 4
        consumers batch off
        consumers commit on
        show
        crash
        crash after write
    """
    assert parse(text) == [
        Start(),
        Next(),
        Ack(TransactionAttempt(1, 0)),
        Fail(TransactionAttempt(20, 3)),
        SetReady(None, ready=True),
        SetReady(None, ready=False),
        SetReady(3, ready=False),
        Pause(),
        Resume(),
        SetMax(4),
        SetConsumers(StreamId.BATCH, listening=False),
        SetConsumers(StreamId.COMMIT, listening=True),
        Show(),
        Crash(),
        Crash(after_write=True),
    ]


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment", "   \t \r\n", "#"])
def test_a_script_may_be_empty(text: str) -> None:
    assert list(run_script(text)) == []


def test_tabs_windows_line_ends_and_comments_right_after_a_word_are_fine() -> None:
    assert parse("ready\t3  off#no\r\n\tack 1:0\r\n") == [SetReady(3, ready=False), Ack(TransactionAttempt(1, 0))]


@pytest.mark.parametrize(
    "line",
    ["ack", "ack 1", "ack 1:", "ack 1:0 2:0", "ack -1:0", "ack ١:0", "fail 1:x", "start now", "next 2", "ready",
     "ready 3", "ready yes", "ready off 3", "max", "max 0", "max -1", "max 1.5", "max x", "consumers", "consumers off",
     "consumers success off", "consumers batch", "show 1", "crash 1", "pause 1", "resume 1", "ack 1:" + "9" * 5000,
     "crash write"],
)  # fmt: skip
def test_a_malformed_step_is_named_with_its_line_and_the_right_form(line: str) -> None:
    word = line.split()[0]
    with pytest.raises(ScriptError, match=rf"line 2: malformed step '{word}.*', expected '{word}"):
        parse(f"start\n{line}\n")


@pytest.mark.parametrize("word", ["foo", "START", "ack:1:0", "nexxt", "BATCH"])
def test_an_unknown_step_is_named_with_its_line(word: str) -> None:
    with pytest.raises(ScriptError, match=f"^line 3: unknown step '{word}'$"):
        parse(f"# a comment\nstart\n{word} 1:0")


def test_nothing_runs_before_all_of_it_is_parsed() -> None:
    with pytest.raises(ScriptError):
        run_script("start\nshow\nfoo")


def test_a_long_run_of_emissions_that_ack_themselves_needs_no_stack() -> None:
    lines = list(run_script("consumers batch off\nconsumers commit off\nmax 400\nstart\nshow"))
    assert len(lines) == 3 * 400 + 1
    assert lines[-1] == "currtx=401 attempts={}"
