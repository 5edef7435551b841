"""The docstrings and pages become plainer, and never less plain; and the judge of them is right."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.plain_english import (
    PACKAGES,
    PAGES,
    ROOT,
    Block,
    blocks_of_markdown,
    blocks_of_python,
    offenders,
    reasons,
    room,
)

CEILINGS: dict[str, int] = {
}
"""How many offenders each room has left: only to be lowered, and to be deleted when nothing is left in it.

`python -m tests.plain_english PATH` lists them."""


def test_no_room_has_more_offenders_than_its_ceiling() -> None:
    counts = Counter(room(each.path) for each in offenders(ROOT / each for each in (*PACKAGES, *PAGES)))
    over = {
        name: f"{count} > {CEILINGS.get(name, 0)}" for name, count in counts.items() if count > CEILINGS.get(name, 0)
    }
    assert over == {}, "list them with: python -m tests.plain_english PATH"


@pytest.mark.parametrize(
    "text",
    [
        "Return what sets which keys have expired.",
        "Tell whether the batch is done.",
        "Return the batch. The driver is told of it.",
        "Return the batch. Whoever leads next reads it.",
        "Return the batch. " + "It is long " * 11 + "too.",
    ],
)
def test_a_sentence_that_is_hard_to_read_is_found(text: str) -> None:
    assert len(list(reasons(Block(1, text, is_summary=True)))) >= 1


@pytest.mark.parametrize(
    "text",
    [
        "Return the SQL that stores the expiry bounds.",
        "Return true if the batch is done, e.g. after `what()` or [a link](what.md).",
        "Why is my topology idle? It waits for the source.",
        "What is a transaction?",
    ],
)
def test_a_plain_sentence_is_not(text: str) -> None:
    assert list(reasons(Block(1, text, is_summary=True))) == []


def test_paragraphs_of_docstrings_know_their_lines() -> None:
    source = '"""Sum rows.\n\nA second\nparagraph.\n\nArgs:\n    rows: to be summed.\n    unit: of them.\n"""\n'
    assert list(blocks_of_python(source)) == [
        Block(1, "Sum rows.", is_summary=True),
        Block(3, "A second paragraph."),
        Block(7, "to be summed."),
        Block(8, "of them."),
    ]


def test_code_in_pages_is_left_out() -> None:
    source = "# Batches\n\nRead this.\n\n```python\nwhat = 1\n```\n\n- one\n- two\n"
    assert [(block.line, block.text) for block in blocks_of_markdown(source)] == [
        (1, "Batches"), (3, "Read this."), (9, "one"), (10, "two"),
    ]  # fmt: skip
