"""What a run leaves behind: tables, plots, and one line for programs."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.parts import Part, Plot, Table
from benchmarks.plots import Axis, number, svg
from benchmarks.report import Report, markdown
from benchmarks.sizes import TINY

SVG = "{http://www.w3.org/2000/svg}"
PLOT = Plot(
    "growth-rows",
    "Rows & <keys>",
    "rows",
    "ms",
    {"transaction": [(10, 50.0), (1_000, 50.0), (100_000, 5_000.0)], "bare": [(10, 40.0), (100_000, 41.0)]},
)
PART = Part(
    tables=[
        Table("Words", [{"": "bare | job", "rows/s": 1_234_567.8, "spread": 1.23456}, {"": "ours", "rows/s": None}])
    ],
    plots=[PLOT],
    numbers={"words_vs_bare": 0.123456},
    spread={"words_vs_bare": 1.5},
    notes=["a sentence"],
)
REPORT = Report({"cores": 2, "zookeeper round, ms": 2.1}, TINY, {"large": PART})


def test_a_plot_is_well_formed_and_has_everything_inside() -> None:
    root = ElementTree.fromstring(svg(PLOT))  # noqa: S314 - our own
    lines = root.findall(f"{SVG}polyline")
    assert len(lines) == 2
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for line in lines:
        for point in line.attrib["points"].split():
            left, top = map(float, point.split(","))
            assert 0 <= left <= width
            assert 0 <= top <= height
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"Rows & <keys>", "rows", "ms", "transaction", "bare", "100k"} <= set(texts)


def test_a_bend_is_ringed() -> None:
    rings = [circle for circle in ElementTree.fromstring(svg(PLOT)).iter(f"{SVG}circle") if circle.get("r") == "8"]  # noqa: S314
    assert len(rings) == 1


def test_an_axis_has_room_for_one_value_alone() -> None:
    axis = Axis.over([100.0], 0, 10)
    assert axis.at(100.0) == 0
    assert axis.ticks() == [100, 200, 500, 1000]


@pytest.mark.parametrize(("value", "label"), [(0.01, "0.01"), (20, "20"), (5_000, "5k"), (1e6, "1M"), (2e9, "2G")])
def test_ticks_have_short_labels(value: float, label: str) -> None:
    assert number(value) == label


def test_a_table_is_markdown() -> None:
    assert list(markdown(PART.tables[0])) == [
        "**Words**",
        "",
        "|  | rows/s | spread |",
        "|---|--:|--:|",
        "| bare \\| job | 1,234,568 | 1.235 |",
        "| ours |  |  |",
    ]


def test_the_summary_is_one_flat_object_with_the_spread() -> None:
    assert REPORT.summary() == {
        "words_vs_bare": 0.1235,
        "zookeeper_round_ms": 2.1,
        "spread": {"words_vs_bare": 1.5},
    }


def test_results_are_in_files_of_stable_names(tmp_path: Path) -> None:
    REPORT.write(tmp_path / "results")
    assert {path.name for path in (tmp_path / "results").iterdir()} == {
        "results.json",
        "results.md",
        "growth-rows.svg",
    }
    found = json.loads((tmp_path / "results" / "results.json").read_text())
    assert found["machine"]["cores"] == 2
    assert found["sizes"]["rounds"] == TINY.rounds
    assert found["parts"]["large"]["plots"][0]["lines"]["bare"] == [[10, 40.0], [100_000, 41.0]]
    assert "![Rows & <keys>](growth-rows.svg)" in (tmp_path / "results" / "results.md").read_text()


def test_a_number_that_is_none_is_refused() -> None:
    broken = Report({"zookeeper round, ms": 2.1}, TINY, {"large": Part(numbers={"words_vs_bare": float("nan")})})
    with pytest.raises(ValueError, match="nan"):
        broken.as_json()
