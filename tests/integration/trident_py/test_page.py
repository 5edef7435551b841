"""The page in a real browser, over a topology in memory that fails now and then."""

from __future__ import annotations

import json
from collections.abc import Iterator
from threading import Thread

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from coordinators.status.status import BusyTask
from tests.topologies import until
from tests.unit.trident_py.web.serving import EVIL, WITHIN_SECONDS, Words, serving
from trident_py.engine.monitoring import listeners
from trident_py.engine.rows.row_engine import RowJobs
from trident_py.errors import TridentError

PHONE = (360, 740)
DESK = (1280, 900)


@pytest.fixture(scope="module")
def browser(chromium: str, chromedriver: str) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(chromedriver))
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture
def words() -> Iterator[Words]:
    with serving(attempts=3) as running:
        yield running


@pytest.fixture
def page(browser: webdriver.Chrome, words: Words) -> Iterator[Page]:
    browser.set_window_size(*DESK)
    browser.get(words.client.url)
    yield Page(browser)
    assert browser.get_log("browser") == [], "the console is clean"  # type: ignore[no-untyped-call]


class Page:
    """What an operator sees and does."""

    def __init__(self, browser: webdriver.Chrome) -> None:
        self.browser = browser

    def one(self, selector: str) -> WebElement:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def until(self, selector: str, text: str) -> WebElement:
        """Wait until an element says so, and is seen."""

        def says(_: object) -> WebElement | bool:
            found = self.browser.find_elements(By.CSS_SELECTOR, selector)
            return next((each for each in found if each.is_displayed() and text in each.text), False)

        return WebDriverWait(self.browser, WITHIN_SECONDS, ignored_exceptions=(Exception,)).until(says)  # type: ignore[return-value]

    def wish(self, title: str, reason: str, outcome: str) -> None:
        """Give the reason in the dialog that has come up, and wait for what is said of the wish."""
        self.until("dialog#wish", title)
        self.one("#wish-reason").send_keys(reason)
        self.one("#wish-submit").click()
        self.until("#wish-outcome", outcome)


def test_it_shows_transactions_as_they_are_committed(page: Page, words: Words) -> None:
    page.until("#state", "running")
    assert "token" not in page.browser.current_url
    for _ in range(3):
        words.feed("to", "be")
    page.until("#committed", "3")
    assert page.one("#topology").text == "words"
    row = page.until('[data-txid="3"]', "3")
    row.click()
    page.until("#details-body", "committed")
    assert "tx=3" in page.browser.current_url


def test_an_address_names_a_transaction_until_its_details_are_closed(page: Page, words: Words) -> None:
    words.feed("to", "be")
    page.until("#committed", "1")
    page.browser.get(f"http://{words.client.host}/#tx=1")
    page.until("#details-body", "rows read")
    page.one("#details-close").click()
    WebDriverWait(page.browser, WITHIN_SECONDS).until(lambda _: not page.one("#details").is_displayed())
    assert "tx=" not in page.browser.current_url


def test_keys_choose_a_transaction_and_how_much_time_is_shown(page: Page, words: Words) -> None:
    for _ in range(3):
        words.feed("to", "be")
    page.until("#committed", "3")
    page.until('[data-txid="3"]', "3").send_keys(Keys.ARROW_DOWN)
    assert page.browser.switch_to.active_element.get_attribute("data-txid") == "2"
    page.until("#tip", "rows read")
    shown = page.one("#span").text
    page.browser.switch_to.active_element.send_keys("-")
    assert page.one("#span").text != shown
    page.browser.switch_to.active_element.send_keys(Keys.ENTER)
    page.until("#details-title", "Transaction 2")


def test_an_error_is_shown_as_text_with_its_row(page: Page, words: Words) -> None:
    page.until("#state", "running")
    with pytest.raises(TridentError):
        words.feed(EVIL)
    page.until("#error", EVIL)
    page.until("#error-groups", EVIL)
    page.until("#state", "failed")
    assert page.browser.find_elements(By.CSS_SELECTOR, "script:not([src])") == []


def test_an_operator_pauses_with_a_reason_and_lets_it_go_on(page: Page, words: Words) -> None:
    page.until("#state", "running")
    page.one('[data-action="pause"]').click()
    page.wish("Pause", "the table is being moved", "is paused")
    page.one("#wish-submit").click()
    page.until("#standing", "the table is being moved")
    assert words.query.status.is_paused
    page.one('[data-action="resume"]').click()
    page.wish("Resume", "it was moved", "continues")
    page.until("#state", "running")


def test_what_is_parked_is_listed_and_skipped(browser: webdriver.Chrome) -> None:
    with serving(on_poison="park") as words:
        browser.get(words.client.url)
        page = Page(browser)
        page.until("#state", "running")
        words.feed(EVIL)
        page.until("#parked-list", f"by on_poison: ValueError: no word: {EVIL}")
        page.one("#parked-list [data-rows]").click()
        page.until("#parked-rows", f"Transaction 1, spout words: 1 row\nposition word\n0 {EVIL}")
        page.one('#parked-list [data-action="skip"]').click()
        page.wish("Skip: transaction 1 of words", "it is no word", "skips transaction 1: the rows never count")
        assert words.query.parked() == ()
        assert browser.get_log("browser") == []  # type: ignore[no-untyped-call]


def test_resident_tasks_are_shown_with_the_line_of_one_that_takes_long(
    browser: webdriver.Chrome, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = {"there": 1, "answered": 1204, "given_back": 3, "dropped": 0}
    busy = [BusyTask(task=0, seconds=12.3, place="in slow, words.py, line 14")]
    monkeypatch.setattr(RowJobs, "resident_tasks", staticmethod(lambda: numbers))  # it has none of its own
    monkeypatch.setattr(RowJobs, "busy_tasks", staticmethod(lambda: busy))
    with serving() as words:
        browser.get(words.client.url)
        shown = Page(browser).until("#residents", "1 resident task: ").text
        assert shown == (
            "1 resident task: 1,204 requests answered, 3 given back to jobs, 0 dropped · "
            "task 0 has had one for 12 s in slow, words.py, line 14"
        )
        until(lambda: b"trident_resident_requests_total{" in words.client.get("/metrics").body)


def test_dead_letters_are_listed_and_released(browser: webdriver.Chrome) -> None:
    with serving(attempts=3, on_bad_row="quarantine") as words:
        browser.get(words.client.url)
        page = Page(browser)
        page.until("#state", "running")
        assert not page.one("#letters").is_displayed()
        words.feed(EVIL, "to", EVIL)
        row = page.until("#letters-list tbody tr", json.dumps({"word": EVIL}))
        assert row.text.startswith("1 words-state map(")
        assert row.text.endswith(" 2 Release")
        row.find_element(By.TAG_NAME, "button").click()
        page.wish("Release: rows of words-state", "it is mended", "dead letters of 'words-state'")
        words.query.process_all_available(WITHIN_SECONDS)
        assert words.query.last_progress is not None
        assert words.query.last_progress["txid"] == 2
        assert browser.get_log("browser") == []  # type: ignore[no-untyped-call]


def test_a_failing_transaction_is_parked_from_its_details(browser: webdriver.Chrome) -> None:
    with serving(attempts=100) as words:
        browser.get(words.client.url)
        page = Page(browser)
        page.until("#state", "running")
        Thread(target=words.feed, args=(EVIL,), daemon=True).start()  # it waits for the commit
        page.until("#error-groups", EVIL)
        browser.get(f"http://{words.client.host}/#tx=1")
        page.until("#details-body", EVIL)
        assert page.one('#details-actions [data-action="retry"]').is_displayed()
        page.one('#details-actions [data-action="park"]').click()
        page.wish("Park: transaction 1 of words", "it is no word", "transaction 1")
        page.one("#wish-submit").click()
        page.until("#parked-list", "it is no word")
        page.until("#details-body", "parked")
        assert not page.one("#details-actions").is_displayed()


def test_why_nothing_happens_is_told(page: Page, words: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "QUIET_SECONDS", 1.5)
    page.until("#state", "running")
    words.feed("to")
    words.query.pause()
    page.until("#standstill", "query.pause() was called")
    page.until("#standing", "query.pause()")


def test_the_plan_says_what_holds_for_each_state(page: Page, words: Words) -> None:
    page.until("#graph", "words")
    page.until("#graph", "exactly-once")


def test_it_fits_on_a_phone(page: Page, words: Words) -> None:
    page.browser.set_window_size(*PHONE)
    words.feed("to")
    page.until("#committed", "1")
    width, shown = page.browser.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert width <= shown


def test_who_has_no_token_is_asked_for_it(browser: webdriver.Chrome, words: Words) -> None:
    browser.delete_all_cookies()
    browser.get(f"http://{words.client.host}/")
    browser.find_element(By.ID, "token").send_keys(words.client.token)
    browser.find_element(By.CSS_SELECTOR, "button").click()
    Page(browser).until("#state", "running")
    browser.get_log("browser")  # type: ignore[no-untyped-call]  # the answer 401 is told there
