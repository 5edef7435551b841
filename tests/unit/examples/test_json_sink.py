"""The example of a sink writes each row once, whatever comes again or too late."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import define
from pyspark.sql import Row

from examples.json_sink import JsonFiles
from trident_py import (
    CommitToken,
    FencedError,
    SinkError,
    SinkTransaction,
    TopologyKey,
    TransactionAttempt,
    TransactionKey,
)

TOPOLOGY = TopologyKey("words", "a-uuid", 1)


@define
class Words:
    """What the sink needs of a DataFrame."""

    words: tuple[str, ...]

    def toLocalIterator(self) -> Iterator[Row]:  # noqa: N802 - Spark's name
        return (Row(word=word) for word in self.words)


def transaction(txid: int, attempt_id: int = 0, epoch: int = 1) -> SinkTransaction:
    key = TransactionKey(TOPOLOGY.uuid, TOPOLOGY.incarnation, txid)
    return SinkTransaction(key, TransactionAttempt(txid, attempt_id), epoch)


def prepare(sink: JsonFiles, tx: SinkTransaction, *words: str) -> Path:
    frame: Any = Words(words)
    return sink.prepare(tx, frame)


def commit(sink: JsonFiles, tx: SinkTransaction, *words: str) -> None:
    sink.commit(tx, prepare(sink, tx, *words))


def rows(path: Path) -> list[str]:
    return [line for file in sorted(path.glob("*.json")) for line in file.read_text().splitlines()]


def test_nothing_is_visible_before_it_is_committed(tmp_path: Path) -> None:
    sink = JsonFiles(tmp_path)
    assert sink.recover(TOPOLOGY, 1) is None
    receipt = prepare(sink, transaction(1), "a", "b")
    assert rows(tmp_path) == []
    sink.commit(transaction(1), receipt)
    assert rows(tmp_path) == ['{"word": "a"}', '{"word": "b"}']


def test_what_is_committed_already_is_left_alone_when_it_comes_again(tmp_path: Path) -> None:
    sink = JsonFiles(tmp_path)
    sink.recover(TOPOLOGY, 1)
    commit(sink, transaction(1), "a")
    commit(sink, transaction(1, 1), "a")
    assert list(sink.drafts(1).iterdir()) == []
    restarted = JsonFiles(tmp_path)
    assert restarted.recover(TOPOLOGY, 2) == CommitToken(1, 1, 0)
    commit(restarted, transaction(1, 2, epoch=2), "a")
    commit(restarted, transaction(2, 0, epoch=2), "b")
    assert rows(tmp_path) == ['{"word": "a"}', '{"word": "b"}']


def test_a_leader_that_was_overtaken_can_neither_commit_nor_prepare(tmp_path: Path) -> None:
    old, new = JsonFiles(tmp_path), JsonFiles(tmp_path)
    old.recover(TOPOLOGY, 1)
    receipt = prepare(old, transaction(1), "a")
    new.recover(TOPOLOGY, 2)
    with pytest.raises(FencedError):
        old.commit(transaction(1), receipt)
    with pytest.raises(FileNotFoundError):
        prepare(old, transaction(2), "b")
    with pytest.raises(FencedError):
        old.recover(TOPOLOGY, 1)
    assert rows(tmp_path) == []


def test_what_is_given_up_is_removed(tmp_path: Path) -> None:
    sink = JsonFiles(tmp_path)
    sink.recover(TOPOLOGY, 1)
    receipt = prepare(sink, transaction(1), "a")
    sink.abort(transaction(1), receipt)
    sink.abort(transaction(2), None)
    assert not receipt.exists()


def test_a_directory_of_another_topology_is_refused(tmp_path: Path) -> None:
    JsonFiles(tmp_path).recover(TOPOLOGY, 1)
    with pytest.raises(SinkError, match="another topology"):
        JsonFiles(tmp_path).recover(TopologyKey("words", "another-uuid", 1), 1)
