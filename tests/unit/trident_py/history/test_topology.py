from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from attrs import evolve

from coordinators.record.store import TopologyIdentity
from tests.unit.trident_py.history.told import LIFE, PROGRAM, committed, emitted, failed, leading
from trident_py.errors import HistoryError
from trident_py.history.database import HistoryDatabase, NoHistoryError, history_at
from trident_py.history.entries import Change, Entries
from trident_py.history.topology import TopologyHistory


@pytest.fixture
def database(tmp_path: Path) -> Iterator[HistoryDatabase]:
    with closing(history_at(tmp_path / "history.db")) as opened:
        change = Entries(PROGRAM).take(
            [
                leading(),
                emitted("1:0"),
                failed("1:0", ValueError("no")),
                emitted("1:1"),
                committed("1:1"),
                emitted("2:0"),
            ]
        )
        opened.write(change)
        yield opened


def test_the_last_transactions_are_given_lowest_first(database: HistoryDatabase, tmp_path: Path) -> None:
    with closing(TopologyHistory.of("wc", tmp_path / "history.db")) as history:
        assert [each.txid for each in history.last(10)] == [1, 2]
        assert [each.txid for each in history.last(1)] == [2]
        assert [each.txid for each in history.last(10, failed=True)] == [1]
        assert [len(each.attempts) for each in history.since(1)] == [2, 1]
        assert history.transaction(2).last.outcome == "processing"
        with pytest.raises(HistoryError, match="knows nothing of transaction 3"):
            history.transaction(3)


def test_only_the_last_life_counts_and_it_is_looked_for_again(database: HistoryDatabase, tmp_path: Path) -> None:
    with closing(TopologyHistory.of("wc", tmp_path / "history.db")) as history:
        after = TopologyIdentity(name="wc", uuid=LIFE.uuid, incarnation=2)
        leadership = evolve(history.leaderships[-1], life=after, epoch=2, since=200.0)
        database.write(Change(after, leadership))
        assert history.life == LIFE
        assert history.refreshed().life == after
        assert history.refreshed().last(10) == []


def test_what_is_not_kept_is_named(database: HistoryDatabase, tmp_path: Path) -> None:
    with pytest.raises(NoHistoryError, match=r"there is no history in .*none\.db"):
        TopologyHistory.of("wc", tmp_path / "none.db")
    with pytest.raises(NoHistoryError, match="has no topology 'other', it knows wc"):
        TopologyHistory.of("other", tmp_path / "history.db")
    with pytest.raises(HistoryError, match="nothing is kept"):
        TopologyHistory.of("wc", None)
