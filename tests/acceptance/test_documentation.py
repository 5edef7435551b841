"""Links lead somewhere, the reference is complete, and the site loads nothing from other hosts."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from attrs import fields
from selenium import webdriver

import trident_py
from tests.acceptance import reference
from trident_py import TridentConfig
from trident_py.cli.app import COMMANDS

ROOT = Path(__file__).parents[2]
HOME = "https://github.com/trident-py/trident_py"
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
MODULES = ("spouts", "operations", "states", "sinks", "testing", "windows", "errors")


def links(page: Path) -> list[str]:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "``", text))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page, as GitHub and MkDocs make them of its headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    words = (re.sub(r"[^\w\s-]", "", title.lower()).strip() for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE))
    return {re.sub(r"[\s-]+", "-", each) for each in words}


def target(page: Path, link: str) -> Path | None:
    """Return the file that a link is to; None: it is to another site."""
    path = link.partition("#")[0]
    if found := re.fullmatch(rf"{HOME}/(?:blob|raw)/main/(.*)", path):
        return ROOT / found[1]
    return None if "://" in path else (page.parent / path if path else page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    for link in links(page):
        file, anchor = target(page, link), link.partition("#")[2]
        if file is None:
            continue
        assert file.exists(), link
        assert not anchor or anchor in anchors(file), link


def test_readme_links_work_on_other_pages() -> None:
    assert [each for each in links(ROOT / "README.md") if not each.startswith("https://")] == []


def test_reference_has_every_public_name() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
    documented = {name.rpartition(".")[2] for name in re.findall(r"^::: (trident_py\.\S+)$", text, re.MULTILINE)}
    public = {*dir(trident_py), *(name for each in MODULES for name in import_module(f"trident_py.{each}").__all__)}
    assert public <= documented, f"not in docs/reference: {sorted(public - documented)}"


@pytest.mark.parametrize("name", reference.GENERATED)
def test_generated_reference_is_current(name: str) -> None:
    page = (reference.REFERENCE / name).read_text(encoding="utf-8")
    assert page == reference.page(name), "to fix this: python -m tests.acceptance.reference"


def test_command_line_page_has_every_command() -> None:
    text = reference.command_line()
    assert re.findall(r"^## trident ([\w-]+)$", text, re.MULTILINE) == list(COMMANDS)


def test_configuration_page_has_every_setting() -> None:
    text = (DOCS / "reference" / "configuration.md").read_text(encoding="utf-8")
    settings: Any = fields(TridentConfig)
    assert [each.name for each in settings if f"`{each.name}`" not in text] == []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    build = ["./dev", "docs", "--build", "--quiet", "--no-directory-urls", "--site-dir", str(directory)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


@pytest.fixture
def browser(chromium: str, chromedriver: str) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(chromedriver))
    try:
        yield driver
    finally:
        driver.quit()


def test_site_requests_nothing_from_other_hosts(browser: webdriver.Chrome, site: Path) -> None:
    for page in (
        "index.html",
        "reference/trident_py.html",
        "explanation/performance.html",
        "tutorials/from-storm.html",
    ):
        browser.get((site / page).as_uri())
        assert browser.find_element("css selector", "h1").text
    messages = (json.loads(each["message"])["message"] for each in browser.get_log("performance"))  # type: ignore[no-untyped-call]
    requested = [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]
    assert requested
    assert [url for url in requested if not url.startswith(("file:", "data:", "blob:"))] == []
