"""Storm's Trident row by row: what becomes of each here, and the test that shows it.

The rows are in ``part_a.txt`` (the interface), ``part_b.txt`` (how the coordinator behaves), ``part_d.txt`` (what
was found wrong in it), ``part_k.txt`` (what Storm's own tests of its Kafka spout try) and ``part_p.txt`` (its other
tests, and its programs), a line each: ``id | Storm | verdict | here | test``. A test is called by its function's name,
with its file in front where others have that name; a parameter of it may follow in brackets. Whoever builds what is
"not yet" there changes that line, and runs ``python -m tests.conformance``, which writes the table of
``docs/reference/storm.md``.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from pathlib import Path

from attrs import frozen

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DOCUMENT = ROOT / "docs" / "reference" / "storm.md"
BEGIN, END = "<!-- rows: python -m tests.conformance -->", "<!-- end of rows -->"


class Verdict(Enum):
    """What becomes of a row of Storm's."""

    WORKS = "works"
    DIFFERS = "differs on purpose"
    DOES_NOT_APPLY = "does not apply"
    NOT_YET = "not yet"


PART_A = {
    "T": 20, "S": 27, "G": 6, "H": 4, "TS": 2, "O": 16, "B": 11, "U": 7, "P": 13, "ST": 29, "W": 9, "D": 5, "K": 15,
    "X": 9, "L": 5, "V": 4,
}  # fmt: skip
"""How many rows each section of the interface has."""

PART_B = {
    "b.00": 6, "b.1": 19, "b.2": 8, "b.3": 5, "b.4": 6, "b.5": 13, "b.6": 4, "b.7": 8, "b.8": 5, "b.9": 4, "b.10": 3,
    "b.11": 12, "b.12": 6,
}  # fmt: skip
"""How many rules each section has; ``b.0`` is one by itself."""

PART_K = {"KE": 15, "KP": 5, "KC": 3, "KF": 3}
"""How many cases Storm's tests of its Kafka spout have, by what they are about."""

PART_P = {"TI": 9, "SP": 16}
"""How many integration tests and example programs Storm has; ``part_p.txt`` says which."""

DEFECTS = 20
"""How many defects were found; ``c``, beside them, is the matrix of guarantees."""

REPORTED = (25, 88, 108, 368, 587, 1540, 1628, 1708, 1712, 1898, 2504, 3280, 3300, 3337, 3710)
"""Storm's issues that its users have reported, by number, and that no other row is about."""

IDS = [
    *(f"{section}{number}" for section, count in (PART_A | PART_K | PART_P).items() for number in range(1, count + 1)),
    *(f"{section}-{number}" for section, count in PART_B.items() for number in range(1, count + 1)),
    "b.0",
    "c",
    *(f"I-{number}" for number in range(1, DEFECTS + 1)),
    *(f"STORM-{number}" for number in REPORTED),
]

PARTS = {
    "part_a.txt": "The interface",
    "part_b.txt": "How the coordinator behaves",
    "part_d.txt": "Guarantees and known defects of Storm",
    "part_k.txt": "Reading Kafka",
    "part_p.txt": "Programs of Storm's",
}


@frozen
class Row:
    """One row of Storm's.

    Attributes:
        storm: what Storm has there.
        here: what is here, or why not.
        test: a node id of pytest; empty where nothing can be tested.
    """

    id: str
    storm: str
    verdict: Verdict
    here: str
    test: str


@frozen
class Section:
    """Some rows under one title."""

    title: str
    rows: tuple[Row, ...]


def sections(part: str) -> list[Section]:
    """The sections of one of the files."""
    found: list[tuple[str, list[Row]]] = []
    for line in (HERE / part).read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            found.append((line.removeprefix("## "), []))
        elif line and not line.startswith("#"):
            found[-1][1].append(_row(line))
    return [Section(title, tuple(rows)) for title, rows in found]


def rows() -> list[Row]:
    """All rows."""
    return [row for part in PARTS for section in sections(part) for row in section.rows]


def _row(line: str) -> Row:
    name, storm, verdict, here, test = [cell.strip() for cell in re.split(r" \|(?= |$)", line)]
    return Row(name, storm, Verdict(verdict), here, "" if test == "-" else _node_id(test))


# --- tests ------------------------------------------------------------------------------------------------------------


@cache
def known_tests() -> Mapping[str, Sequence[str]]:
    """Where tests of a name are: files below the root. Read from their text; nothing is imported."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found.setdefault(node.name, []).append(path.relative_to(ROOT).as_posix())
    return found


def _node_id(test: str) -> str:
    """The node id of the only test that is called so.

    Raises:
        LookupError: there is none, or several.
    """
    file, _, name = test.rpartition("::")
    named = known_tests().get(name.partition("[")[0], [])
    places = [path for path in named if not file or path.endswith(f"/{file}")]
    if len(places) != 1:
        raise LookupError(f"{test}: {len(places)} tests are called so: {', '.join(places)}")
    return f"{places[0]}::{name}"


# --- the document -----------------------------------------------------------------------------------------------------


def rendered() -> str:
    """The tables, as they stand in the document."""
    return "\n".join(_lines())


def documented() -> str:
    """What stands in the document now."""
    return DOCUMENT.read_text(encoding="utf-8").partition(f"{BEGIN}\n")[2].partition(f"\n{END}")[0]


def write() -> None:
    """Write the tables into the document."""
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(f"{BEGIN}\n")
    DOCUMENT.write_text(f"{before}{BEGIN}\n{rendered()}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def _lines() -> Iterator[str]:
    counts = Counter(row.verdict for row in rows())
    yield ", ".join(f"{counts[verdict]} × {verdict.value}" for verdict in Verdict) + "."
    for part, title in PARTS.items():
        yield f"\n### {title}"
        for section in sections(part):
            yield f"\n#### {section.title}\n"
            yield "| row | Storm | verdict | here | test |\n|---|---|---|---|---|"
            for row in section.rows:
                test = f"`{row.test}`" if row.test else ""
                yield f"| {row.id} | {row.storm} | {row.verdict.value} | {row.here} | {test} |"
