"""The rules of exactly-once, as far as they can be seen from outside, and what breaks them in one topology's traces."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from attrs import field, frozen

from coordinators.record.record import CoordinatorRecord
from tests.faults.journal import Event

TEXT_MAX = 400

RUN_MAX = 3
"""As many transactions as the program has pending."""

ASKED = "word1"
"""The word that drivers are asked for."""

NAMED_ENDS = frozenset({None, "FencedError", "CoordinationLost"})
"""How a driver may end whatever is done to it; `Evidence.ends` has what a fault allows besides."""


@frozen
class Entry:
    """A row of the ledger."""

    txid: int
    epoch: int
    attempt: int
    deltas: Mapping[str, int]
    splits: list[list[Any]]


@frozen
class Logged:
    """A row of the ledger's log: a commit, or a fence (which has no txid)."""

    txid: int | None
    epoch: int
    attempt: int | None


@frozen(kw_only=True)
class Evidence:
    """All that a topology has left behind when it has ended.

    Attributes:
        files: the input.
        counts: what was counted.
        book: last committed txid, and the fence.
        staging: the names of the staging tables that are there.
        events: what all drivers told, in order.
        per_window: of how many of each word there is one in the counts; 0: there is no window.
        is_timed: whether words are counted when a window by time closes.
        parks: whether a transaction was parked and released: its splits came in another order, and at first not at all.
        ends: errors besides `NAMED_ENDS` that may have ended a driver.
    """

    files: list[Path]
    counts: Mapping[str, int]
    ledger: list[Entry]
    log: list[Logged]
    book: tuple[int, int]
    staging: list[str]
    record: CoordinatorRecord
    events: list[Event]
    ends: frozenset[str] = frozenset()
    per_window: int = 0
    is_timed: bool = False
    parks: bool = False

    @property
    def last_number(self) -> int:
        """How many transactions with input are committed."""
        return self.record.bindings.upto(self.record.current_txid - 1)

    def of(self, *kinds: str) -> Iterator[Event]:
        """The events of these kinds."""
        return (event for event in self.events if event["kind"] in kinds)


def _shortened(text: str) -> str:
    return text if len(text) < TEXT_MAX else text[:TEXT_MAX] + "…"


@frozen
class Violation:
    """A rule that was broken."""

    rule: str
    text: str = field(converter=_shortened)

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


def violations(evidence: Evidence) -> list[Violation]:
    """What is wrong; nothing if every rule was kept."""
    return [Violation(rule, text) for rule, look in RULES.items() for text in look(evidence)]


def reference(evidence: Evidence) -> Iterator[str]:
    """The counts are those of the input, and each transaction brought in what its splits say."""
    expected = counted(words_in(evidence.files), evidence.per_window)
    lost, doubled = expected - Counter(evidence.counts), Counter(evidence.counts) - expected
    if lost:
        yield f"{lost.total()} words were lost, as {dict(lost.most_common(3))}"
    if doubled:
        yield f"{doubled.total()} words were counted too often, as {dict(doubled.most_common(3))}"
    read: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    for entry in sorted(evidence.ledger, key=lambda entry: entry.txid):
        before = counted(read, evidence.per_window)
        read += words_of(entry.splits)
        if evidence.is_timed:
            waiting += words_of(entry.splits)
            if early := Counter(entry.deltas) - waiting:
                yield f"transaction {entry.txid} brought in {dict(early)}, which waited in no window"
            waiting -= Counter(entry.deltas)
        elif (due := counted(read, evidence.per_window) - before) != Counter(entry.deltas):
            yield f"transaction {entry.txid} brought in {dict(entry.deltas)}, its splits make {dict(due)}"


def words_in(files: Iterable[Path]) -> Counter[str]:
    """How often each word is in these files."""
    return Counter(word for path in files for word in path.read_text().split())


def counted(words: Counter[str], per_window: int) -> Counter[str]:
    """What is counted of these words."""
    whole = Counter({word: times // (per_window or 1) for word, times in words.items()})
    return +whole


def words_of(splits: Iterable[list[Any]] | None) -> Counter[str]:
    """The words in these ranges of files."""
    words: Counter[str] = Counter()
    for path, first, last, *_ in splits or ():  # a release of dead letters has none
        with Path(path).open("rb") as file:
            file.seek(first)
            words.update(file.read(last - first).decode().split())
    return words


def once(evidence: Evidence) -> Iterator[str]:
    """One effect is visible of each transaction."""
    for txid, times in Counter(entry.txid for entry in evidence.ledger).items():
        if times > 1:
            yield f"transaction {txid} is {times} times in the ledger"


def tiling(evidence: Evidence) -> Iterator[str]:
    """Transactions are numbered without a gap, and their splits cover the input without one."""
    ledger = sorted(evidence.ledger, key=lambda entry: entry.txid)
    if evidence.parks:
        return
    if [entry.txid for entry in ledger] != list(range(1, len(ledger) + 1)):
        yield f"the transactions are {[entry.txid for entry in ledger]}"
    ends = {str(path): 0 for path in evidence.files}
    for entry in ledger:
        for path, first, last, *_ in entry.splits:
            if first != ends.get(path):
                yield f"transaction {entry.txid} reads {path} from {first}, the one before it ended at {ends.get(path)}"
            ends[path] = last
    for path, end in ends.items():
        if end != Path(path).stat().st_size:
            yield f"{path} was read to {end} of {Path(path).stat().st_size}"


def order(evidence: Evidence) -> Iterator[str]:
    """Transactions are committed one after the other, and epochs never go back."""
    txid = epoch = 0
    for logged in evidence.log:
        if logged.txid is not None and logged.txid not in (txid, txid + 1):
            yield f"transaction {logged.txid} came after {txid}"
        if logged.epoch < epoch:
            yield f"epoch {logged.epoch} came after {epoch}"
        txid, epoch = logged.txid or txid, logged.epoch


def success(evidence: Evidence) -> Iterator[str]:
    """Success is told after the record is durable, in order, and of every transaction."""
    durable, heard = 0, 0
    last: dict[int, int] = {}
    for event in evidence.of("record", "leads", "success"):
        if event["kind"] != "success":
            durable = max(durable, event["current"] - 1)
            last = {} if event["kind"] == "leads" else last
            continue
        txid, pid = event["txid"], event["pid"]
        if txid > durable:
            yield f"success of {txid} while only {durable} was recorded"
        if txid > heard + 1 or txid != last.get(pid, txid - 1) + 1:
            yield f"success of {txid} after {last.get(pid)} in process {pid}, {heard} anywhere"
        heard, last[pid] = max(heard, txid), txid
    if heard != evidence.last_number:
        yield f"success was told up to {heard}, {evidence.last_number} are committed"


def fenced(evidence: Evidence) -> Iterator[str]:
    """Nothing of an epoch lands after a higher fence; who loses ends by name."""
    fence = 0
    for logged in evidence.log:
        if logged.txid is None:
            fence = max(fence, logged.epoch)
        elif logged.epoch < fence:
            yield f"transaction {logged.txid} of epoch {logged.epoch} landed behind fence {fence}"
    for event in evidence.of("ended"):
        if event["error"] not in NAMED_ENDS | evidence.ends:
            yield f"a driver ended with {event['error']}: {event['message']}"


def tokens(evidence: Evidence) -> Iterator[str]:
    """Tokens increase strictly."""
    commits = [(each.txid, each.epoch, each.attempt) for each in evidence.log if each.txid is not None]
    for before, after in pairwise(commits):
        if after <= before:
            yield f"token {after} came after {before}"


def pinned(evidence: Evidence) -> Iterator[str]:
    """Every attempt of a transaction has the same definition, in every process; it is what was committed."""
    defined = {entry.txid: entry.splits for entry in evidence.ledger}
    if evidence.parks:
        return
    for event in evidence.of("emitted"):
        if event["splits"] != defined.setdefault(event["txid"], event["splits"]):
            yield f"transaction {event['txid']} was {defined[event['txid']]}, its attempt {event['attempt']} is other"


def retained(evidence: Evidence) -> Iterator[str]:
    """The definition of the last transaction, by which the next one is made, is there."""
    last = evidence.last_number
    if last and last not in evidence.record.metadata:
        yield f"the record has no definition of {last}, only of {list(evidence.record.metadata)}"


def together(evidence: Evidence) -> Iterator[str]:
    """The state is where the record is, or one run of transactions ahead."""
    committed, (txid, _) = evidence.record.current_txid - 1, evidence.book
    if txid not in range(committed, committed + 1 + RUN_MAX):
        yield f"the state is at {txid}, the record at {committed}"


def residue(evidence: Evidence) -> Iterator[str]:
    """Nothing that an older epoch staged is left."""
    for name in evidence.staging:
        if int(re.split("_", name)[-3]) < evidence.book[1]:
            yield f"{name} is left behind, the fence is {evidence.book[1]}"


def answers(evidence: Evidence) -> Iterator[str]:
    """Who asks is told what some transaction has committed, and never less than was told before."""
    brought = (entry.deltas.get(ASKED, 0) for entry in sorted(evidence.ledger, key=lambda entry: entry.txid))
    committed = set(accumulate(brought, initial=0))
    told = list(evidence.of("answer"))
    for answer in told:
        if answer["count"] not in committed:
            yield f"{answer['count']} of {ASKED!r} was told, which was never committed"
        before = max((each["count"] for each in told if each["at"] < answer["began"]), default=0)
        if answer["count"] < before:
            yield f"{answer['count']} of {ASKED!r} was told after {before}"


RULES = {
    "S1 reference": reference,
    "S2 once": once,
    "S3 tiling": tiling,
    "S4 order": order,
    "S5 success": success,
    "S6 fence": fenced,
    "S7 attempt": tokens,
    "S8 pin": pinned,
    "S9 retention": retained,
    "S11 regress": together,
    "S12 residue": residue,
    "S14 answers": answers,
}
