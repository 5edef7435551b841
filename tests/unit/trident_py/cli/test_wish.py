"""What an operator is told about a wish: over a topology in memory that a driver leads, on a thread of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from attrs import define, field

from coordinators.backends.local import LocalCoordination
from coordinators.record.record import CoordinatorRecord
from coordinators.record.store import RecordStore
from coordinators.record.wishes import NOTHING_STANDS, Action, Hold, Outcome, Rate, Standing, Wish
from trident_py.cli import wish as command
from trident_py.cli.app import main
from trident_py.cli.status import Readable


@define
class Leader:
    """Carries out what is wished, as long as it is told to, by the rules of `Standing`."""

    coordination: LocalCoordination
    begun: int = 0
    store: RecordStore = field(init=False)
    seq: int = 1

    def __attrs_post_init__(self) -> None:
        self.store = self.coordination.lead("wordcount")
        self.write()

    def write(self, standing: Standing = NOTHING_STANDS, outcomes: tuple[Outcome, ...] = ()) -> None:
        self.seq += 1
        attempts = {txid: 0 for txid in range(1, self.begun + 1)}
        self.store.write(CoordinatorRecord(1, seq=self.seq, attempt_ids=attempts, standing=standing, outcomes=outcomes))

    def serve(self) -> None:
        """From now on, each wish as soon as it comes."""
        record = self.store.read() or CoordinatorRecord(1)
        for each in self.store.wishes(lambda _: self.serve()):
            standing = record.standing.after(each)
            if standing.hold is Hold.DRAINING and not self.begun:
                standing = Standing(Hold.PAUSED, standing.rate)
            outcome = Outcome(each.id, each.action, standing, self.begun)
            record = CoordinatorRecord(1, standing=standing, outcomes=(*record.outcomes, outcome))
            self.write(standing, record.outcomes)


@pytest.fixture
def coordination(monkeypatch: pytest.MonkeyPatch) -> LocalCoordination:
    local = LocalCoordination()

    @contextmanager
    def existing(_config: object) -> Iterator[LocalCoordination]:
        yield local

    monkeypatch.setattr(command, "existing", existing)
    return local


def told(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    assert main([*words]) == status
    return capsys.readouterr().out.strip()


def test_each_wish_is_waited_for_and_told(coordination: LocalCoordination, capsys: pytest.CaptureFixture[str]) -> None:
    Leader(coordination, begun=2).serve()
    lifts = "`trident resume wordcount` lifts that"
    paused = told(capsys, "pause", "wordcount")
    assert paused == f"topology 'wordcount' is paused, with 2 transactions under way, and commit; {lifts}"
    limited = told(capsys, "rate", "wordcount", "--batches-per-second", "0.5", "--pending", "1")
    assert limited.startswith("topology 'wordcount' starts at most 0.5 new batches per second and has at most 1 trans")
    assert told(capsys, "resume", "wordcount") == "topology 'wordcount' continues, without limits"


def test_dead_letters_are_wished_by_transaction_and_branch(
    coordination: LocalCoordination, capsys: pytest.CaptureFixture[str]
) -> None:
    leader = Leader(coordination)
    leader.serve()
    one = told(capsys, "dead-letters", "wordcount", "release", "17", "--branch", "total", "--reason", "mended")
    assert one == (
        "topology 'wordcount' processes the dead letters of 'total' from transaction 17 again, "
        "those of each branch as a new transaction"
    )
    every = told(capsys, "dead-letters", "wordcount", "release", "--all")
    assert every.startswith("topology 'wordcount' processes the dead letters again")
    for words in (["release"], ["release", "1", "--all"], ["list", "1"], ["list", "--branch", "total"]):
        assert main(["dead-letters", "wordcount", *words]) == 2
        assert "trident dead-letters NAME" in capsys.readouterr().err


def test_a_drain_is_waited_for_until_it_is_done(
    coordination: LocalCoordination, capsys: pytest.CaptureFixture[str]
) -> None:
    leader = Leader(coordination)
    leader.serve()
    drained = told(capsys, "drain", "wordcount")
    assert drained == "topology 'wordcount' is drained, and paused; `trident resume wordcount` lifts that"
    leader.begun = 1
    drains = told(capsys, "drain", "wordcount", "--timeout", "0", status=1)
    assert drains == "topology 'wordcount' drains, with 1 transaction to be committed; then it is paused"


def test_where_nobody_leads_the_wish_stands(
    coordination: LocalCoordination, capsys: pytest.CaptureFixture[str]
) -> None:
    Leader(coordination).store.close()
    assert told(capsys, "pause", "wordcount").startswith(
        "no process leads topology 'wordcount': the next leader carries"
    )
    assert [wish.action for wish in coordination.describe("wordcount").wishes] == [Action.PAUSE]
    told(capsys, "drain", "wordcount", status=1)


def test_a_leader_that_does_not_answer_is_named(
    coordination: LocalCoordination, capsys: pytest.CaptureFixture[str]
) -> None:
    Leader(coordination)
    silent = told(capsys, "pause", "wordcount", "--timeout", "0", status=1)
    assert "leads topology 'wordcount', and has not carried out the wish within 0 s; it can still do so" in silent


def test_a_leader_that_does_not_know_the_wish_has_changed_nothing(
    coordination: LocalCoordination, capsys: pytest.CaptureFixture[str]
) -> None:
    leader = Leader(coordination)

    def refuse(wish: object) -> None:
        assert isinstance(wish, Wish)
        leader.write(outcomes=(Outcome(wish.id, None, NOTHING_STANDS, 0),))

    leader.store.wishes(refuse)
    assert told(capsys, "pause", "wordcount", status=1).endswith("doesn't know this wish; nothing was changed")


def test_a_wish_that_a_reset_has_forgotten_is_not_waited_for(
    coordination: LocalCoordination, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Leader(coordination).store.close()
    monkeypatch.setattr(LocalCoordination, "wish", lambda self, name, _: self.reset(name))
    assert told(capsys, "pause", "wordcount", status=1).endswith("was reset meanwhile, which deleted the wish")


def test_all_of_it_is_there_as_json(coordination: LocalCoordination, capsys: pytest.CaptureFixture[str]) -> None:
    Leader(coordination, begun=1).serve()
    facts = json.loads(told(capsys, "rate", "wordcount", "--pending", "3", "--json"))
    assert facts.pop("wish")
    assert facts.pop("leader")["pid"]
    assert facts == {
        "topology": "wordcount",
        "action": "rate",
        "carried_out": True,
        "refused": "",
        "found": {},
        "waits": False,
        "standing": {"hold": "nothing", "pending": 3},
        "under_way": 1,
    }


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "a rate needs a limit"),
        (["--pending", "0"], "pending must be a whole number from 1 to 9223372036854775807, not 0"),
        (["--max-batch", "9" * 40], "max batch must be a whole number from 1 to 9223372036854775807, not 999"),
        (["--batches-per-second", "1e400"], "batches per second must be a finite number of at least 1e-09, not inf"),
        (
            ["--batches-per-second", "1e-300"],
            "batches per second must be a finite number of at least 1e-09, not 1e-300",
        ),
        (["--batches-per-second", "nan"], "batches per second must be a finite number of at least 1e-09, not nan"),
        (["--pending", "many"], "invalid int value"),
    ],
)
def test_a_rate_that_limits_nothing_is_refused_before_anything_is_wished(
    words: list[str], why: str, coordination: LocalCoordination, capsys: pytest.CaptureFixture[str]
) -> None:
    Leader(coordination)
    assert main(["rate", "wordcount", *words]) == 2
    assert why in capsys.readouterr().err
    assert coordination.describe("wordcount").wishes == ()


@pytest.mark.parametrize(
    "reason", ["M\udcfcller", "a\x1b[31m", "two\nlines", "\u202egnp.exe", "x" * 501, "\udcff" * 100_000]
)
def test_a_reason_that_is_not_one_line_of_text_is_refused_before_anything_is_wished(
    reason: str, coordination: LocalCoordination, capsys: pytest.CaptureFixture[str]
) -> None:
    Leader(coordination)
    assert main(["pause", "wordcount", "--reason", reason]) == 2
    said = capsys.readouterr().err
    assert "a reason is one line of Unicode text without control characters, at most 500 characters long" in said
    assert len(said) < 1000
    assert coordination.describe("wordcount").wishes == ()


@pytest.mark.parametrize(
    "words",
    [["pause", "M\udcfcller"], ["request", "counts", "M\udcfcller"], ["request", "counts", "count", "M\udcfcller"]],
)
def test_what_is_typed_and_is_not_text_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "not Unicode text: 'M\\udcfcller'" in capsys.readouterr().err


def test_a_limit_that_an_earlier_release_has_taken_is_shown(coordination: LocalCoordination) -> None:
    Leader(coordination).write(Standing(rate=Rate(batches_per_second=10**401)))
    assert (
        "starts at most over 1.79769e+308 new batches per second" in Readable(coordination.describe("wordcount")).held
    )


def test_the_status_shows_what_stands_and_what_waits(
    coordination: LocalCoordination, capsys: pytest.CaptureFixture[str]
) -> None:
    leader = Leader(coordination)
    leader.serve()
    told(capsys, "rate", "wordcount", "--pending", "1")
    told(capsys, "pause", "wordcount")
    shown = Readable(coordination.describe("wordcount"))
    assert (shown.facts()["standing"], shown.facts()["wishes"]) == ({"hold": "paused", "pending": 1}, [])
    stands = "paused and has at most 1 transaction pending; `trident resume wordcount` lifts that"
    assert (shown.state, shown.held) == ("paused", stands)
    leader.store.close()
    told(capsys, "resume", "wordcount")
    shown = Readable(coordination.describe("wordcount"))
    assert (shown.state, shown.held) == ("not running", f"{stands}; to be carried out: resume")


def test_why_it_is_held_back_is_shown_to_whoever_looks(
    coordination: LocalCoordination, capsys: pytest.CaptureFixture[str]
) -> None:
    Leader(coordination).serve()
    told(capsys, "pause", "wordcount", "--reason", "the table is being moved")
    assert "lifts that (the table is being moved)" in Readable(coordination.describe("wordcount")).held
    told(capsys, "resume", "wordcount")
    assert Readable(coordination.describe("wordcount")).held == ""
