"""What the files of the page may be: they are sent as they are, to a browser that takes nothing from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import trident_py

STATIC = Path(trident_py.__file__).parent / "web" / "static"
MODULE_LINES_MAX = 400
SCRIPTS = sorted(STATIC.glob("*.js"))
MARKUP = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|srcdoc"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_what_users_rows_say_never_becomes_markup_or_code(script: Path) -> None:
    source = script.read_text(encoding="utf-8")
    assert not re.search(rf"{MARKUP}|\beval\(|new Function\(|setAttribute\(\"(style|on)", source)
    assert "// @ts-check" in source
    assert source.count("\n") <= MODULE_LINES_MAX


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_module_imports_only_what_is_beside_it(script: Path) -> None:
    imported = re.findall(r"^import .*?from \"(.*?)\";", script.read_text(encoding="utf-8"), re.MULTILINE)
    assert all((STATIC / each).is_file() and each.startswith("./") for each in imported)


@pytest.mark.parametrize("page", sorted(STATIC.glob("*.html")), ids=lambda path: path.name)
def test_a_page_has_no_script_or_style_of_its_own_and_nothing_from_elsewhere(page: Path) -> None:
    source = page.read_text(encoding="utf-8")
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", source)
    assert not re.search(r"(src|href)=\"(https?:)?//", source)
    for asset in re.findall(r"(?:src|href)=\"/?static/(.*?)\"", source):
        assert (STATIC / asset).is_file()


def test_a_style_has_nothing_from_elsewhere() -> None:
    for sheet in STATIC.glob("*.css"):
        assert not re.search(r"@import|url\(", sheet.read_text(encoding="utf-8"))
