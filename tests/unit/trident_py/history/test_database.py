"""What each database keeps of a history, alike, and which one a place is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from coordinators.record.store import TopologyIdentity
from coordinators.status.listener import WishedEvent
from coordinators.values.secret import Secret
from tests.unit.trident_py.history.told import ALL_GOOD, LIFE, PROGRAM, attempt, ended, leading, succeeded
from trident_py.errors import ConfigError, HistoryError
from trident_py.history.database import HistoryDatabase, history_at
from trident_py.history.entries import AttemptEntry, Change, Entries, WishEntry


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres), "mysql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | Secret:
    if request.param == "sqlite":
        return tmp_path / "deep" / "history.db"
    return Secret(request.getfixturevalue(request.param))


@pytest.fixture
def database(place: Path | Secret) -> Iterator[HistoryDatabase]:
    with closing(history_at(place)) as made:
        yield made


def entry(txid: int, text: str = "", life: TopologyIdentity = LIFE) -> AttemptEntry:
    which = attempt(f"{txid}:0")
    return AttemptEntry(life=life, epoch=1, attempt=which, emitted=float(txid), phase="committed", error=text)


def txids(database: HistoryDatabase, life: TopologyIdentity = LIFE) -> list[int]:
    return sorted(each.txid for each in database.attempts(life, 1, 1 << 40))


def test_what_is_written_is_read_again(database: HistoryDatabase, place: Path | Secret) -> None:
    entries = Entries(PROGRAM)
    change = entries.take(ALL_GOOD)
    database.write(change)
    database.write(entries.take([ended(ValueError("boom"))]))
    with closing(history_at(place, reads=True)) as reader:
        assert reader.topologies() == ["wc"]
        (leadership,) = reader.leaderships("wc")
        assert leadership == evolve(change.leadership, ended=105.0, error="ValueError: boom")  # type: ignore[misc]
        assert tuple(reader.attempts(LIFE, 1, 1)) == change.attempts
        assert reader.leaderships("other") == []
        assert reader.attempts(LIFE, 2, 9) == []


def test_an_attempt_that_is_written_again_has_its_last_entry(database: HistoryDatabase) -> None:
    odd = "odd ' text – ü日本\n💥"
    for text in ("", "long" * 20_000, odd):
        database.write(Change(LIFE, attempts=(entry(1, text),)))
        assert [each.error for each in database.attempts(LIFE, 1, 1)] == [text]


def test_a_success_of_an_earlier_leaderships_changes_its_entry_and_makes_none(database: HistoryDatabase) -> None:
    database.write(Change(LIFE, attempts=(evolve(entry(1), phase="processed", rows=5),)))
    database.write(Change(LIFE, succeeded=(succeeded("1:0"), succeeded("2:0"))))
    (found,) = database.attempts(LIFE, 1, 9)
    assert (found.phase, found.succeeded, found.rows) == ("committed", 104.0, 5)
    database.write(Change(LIFE, attempts=(evolve(entry(3), phase="parked"),)))
    database.write(Change(LIFE, succeeded=(succeeded("3:0"),)))
    assert [each.phase for each in database.attempts(LIFE, 3, 9)] == ["parked"]


def test_the_last_transactions_come_first_and_those_that_have_failed_if_only_they_are_wanted(
    database: HistoryDatabase,
) -> None:
    failed = [evolve(entry(txid), phase="failed") for txid in (2, 4)]
    database.write(Change(LIFE, attempts=(entry(1), entry(3), entry(5), *failed)))
    assert database.last_txids(LIFE, 3) == [5, 4, 3]
    assert database.last_txids(LIFE, 3, failed=True) == [4, 2]


def test_lives_are_kept_apart(database: HistoryDatabase) -> None:
    second = evolve(LIFE, incarnation=2)
    database.write(Change(LIFE, attempts=(entry(1), entry(2))))
    database.write(Change(second, attempts=(entry(1, life=second),)))
    assert (txids(database), txids(database, second)) == ([1, 2], [1])


def test_of_too_many_attempts_the_oldest_are_forgotten_of_this_topology_alone(
    database: HistoryDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trident_py.history.database.ATTEMPTS_MAX", 3)
    other = evolve(LIFE, name="other", uuid="o")
    database.write(Change(LIFE, attempts=tuple(map(entry, range(1, 11)))))
    database.write(Change(other, attempts=(entry(1, life=other),)))
    database.prune("wc")
    assert (txids(database), txids(database, other)) == ([8, 9, 10], [1])


def test_of_too_many_bytes_the_oldest_are_forgotten(database: HistoryDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trident_py.history.database.ATTEMPTS_BYTES_MAX", 2500)
    database.write(Change(LIFE, attempts=tuple(entry(txid, "x" * 1000) for txid in range(1, 6))))
    database.prune("wc")
    assert txids(database) == [4, 5]
    database.prune("wc")
    assert txids(database) == [4, 5]


def wish(number: int, **facts: Any) -> WishEntry:
    event = WishedEvent(
        topology=LIFE.name, at=float(number), wish=f"w{number}", action="park", txids=(number,), **facts
    )
    return WishEntry(life=LIFE, epoch=1, id=event.wish, event=event)


def test_commands_are_read_again_in_their_order(database: HistoryDatabase) -> None:
    first = wish(1, by="ann", reason="prices", found={"lines": (3, 4)})
    second = wish(2, refused="it is committed")
    database.write(Change(LIFE, wishes=(second, first)))
    database.write(Change(LIFE, wishes=(first,)))
    assert database.wishes(LIFE) == [first, second]
    assert database.wishes(evolve(LIFE, incarnation=2)) == []


def test_of_too_many_commands_the_oldest_are_forgotten(
    database: HistoryDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trident_py.history.database.WISHES_MAX", 2)
    database.write(Change(LIFE, wishes=tuple(map(wish, range(1, 6)))))
    database.prune(LIFE.name)
    assert [each.id for each in database.wishes(LIFE)] == ["w4", "w5"]


def test_of_too_many_leaderships_the_oldest_are_forgotten(
    database: HistoryDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trident_py.history.database.LEADERSHIPS_MAX", 2)
    for epoch in range(1, 6):
        database.write(Entries(PROGRAM).take([leading(epoch, at=100.0 + epoch)]))
    database.prune("wc")
    assert [each.epoch for each in database.leaderships("wc")] == [4, 5]


def test_nothing_is_written_of_what_is_nobodys(database: HistoryDatabase) -> None:
    database.write(Change())
    database.write(Change(LIFE))
    assert database.topologies() == []


def test_one_of_a_version_before_the_first_release_is_refused_and_not_changed(
    database: HistoryDatabase, place: Path | Secret
) -> None:
    database.write(Entries(PROGRAM).take(ALL_GOOD))
    with closing(database.database.link()) as link, link.transaction() as connection:
        connection.execute("ALTER TABLE trident_leaderships DROP COLUMN format")
    with closing(history_at(place)) as other, pytest.raises(HistoryError, match="has no format version"):
        other.write(Entries(PROGRAM).take(ALL_GOOD))


def test_a_place_is_a_path_or_the_url_of_a_database(tmp_path: Path) -> None:
    assert history_at(tmp_path / "h.db").shown == str(tmp_path / "h.db")
    assert history_at(Secret("postgresql://me:secret@db.example/past")).shown == "db.example/past"
    assert history_at(Secret("host=db.example dbname=past password=secret")).shown == "db.example/past"
    assert history_at(Secret("mariadb://me:secret@db.example/past")).shown == "db.example/past"


@pytest.mark.parametrize("url", ["postgresql://me:canary@[broken/db", "mysql://me:canary@[broken/db", "mysql://canary"])
def test_a_url_that_cannot_be_read_is_not_shown(url: str) -> None:
    with pytest.raises(HistoryError, match="the place of the history") as caught:
        history_at(Secret(url))
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(("module", "url"), [("psycopg", "postgresql://localhost/past"), ("pymysql", "mysql://h/past")])
def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, module: str, url: str) -> None:
    for name in [name for name in sys.modules if name.startswith("trident_py.states.sql.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=r"pip install 'trident-py\["):
        history_at(Secret(url))
