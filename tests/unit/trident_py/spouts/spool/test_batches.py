"""The halves of a spout over a spool; exactly-once is in test_exploration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from coordinators.values.attempt import TransactionAttempt
from coordinators.values.canonical import json_copy
from tests.unit.trident_py.spouts.collecting import emitted
from trident_py.errors import SpoutError
from trident_py.spouts.spool.batches import SpoolCoordinator, SpoolEmitter
from trident_py.spouts.spool.files import SpoolDirectory
from trident_py.spouts.spool.records import Received
from trident_py.spouts.spool.spool import Spool, SpoolClosedError, SpoolLimits

ATTEMPT = TransactionAttempt(1, 0)


class Halves:
    """A leader's halves, with the definitions that were stored."""

    def __init__(self, directory: Path, epoch: int = 1, cursors: dict[str, Any] | None = None) -> None:
        limits = SpoolLimits(held_bytes=10_000, dedup_seconds=10.0)
        self.spool = Spool(where="here", files=SpoolDirectory(directory), epoch=epoch, limits=limits)
        self.coordinator = SpoolCoordinator(spool=self.spool, lag_name="clicks", bytes_max=10_000)
        self.emitter = SpoolEmitter(
            spool=self.spool,
            read=lambda records: [pa.table({"text": [each.received.content.decode() for each in records]})],
        )
        self.cursors = cursors or {}
        self.definitions: dict[int, Any] = {}
        self.coordinator.restore(self.cursors)

    def offer(self, *texts: str) -> None:
        self.spool.offer(*(Received(key=None, digest="", rows=1, content=text.encode()) for text in texts))

    def define(self, txid: int) -> Any:
        metadata: Any = self.coordinator.initialize_transaction(txid, None, None)
        self.definitions[txid] = json_copy(metadata)
        self.cursors |= self.coordinator.moved(metadata)
        return self.definitions[txid]

    def texts(self, txid: int) -> list[str]:
        return [text for (text,) in emitted(self.emitter, ATTEMPT, self.definitions[txid])]


@pytest.fixture
def halves(tmp_path: Path) -> Callable[..., Halves]:
    def make(*arguments: Any) -> Halves:
        return Halves(tmp_path, *arguments)

    return make


def test_the_first_batch_names_the_spool_and_only_then_it_accepts(halves: Callable[..., Halves]) -> None:
    one = halves()
    assert one.coordinator.is_ready(1)
    assert one.define(1)["ranges"] == []
    assert not one.coordinator.is_ready(2)
    with pytest.raises(SpoolClosedError):
        one.offer("early")
    assert one.texts(1) == []
    one.offer("a", "b")
    assert (one.coordinator.is_ready(2), one.coordinator.lag()) == (True, {"clicks": 2})
    one.define(2)
    assert one.texts(2) == one.texts(2) == ["a", "b"]
    two = halves(2, one.cursors)
    assert not two.coordinator.is_ready(3)
    two.offer("c")
    two.define(3)
    assert two.texts(3) == ["c"]


def test_a_limit_of_an_operator_holds_for_later_batches(halves: Callable[..., Halves]) -> None:
    one = halves()
    one.define(1)
    one.texts(1)
    one.offer("a", "b", "c")
    one.coordinator.limit_batches(2)
    one.define(2)
    one.coordinator.limit_batches(None)
    one.define(3)
    assert [one.texts(txid) for txid in (2, 3)] == [["a", "b"], ["c"]]


def test_a_batch_that_was_defined_before_comes_again_and_then_succeeds(halves: Callable[..., Halves]) -> None:
    one = halves()
    one.define(1)
    one.texts(1)
    one.offer("a")
    defined = one.define(2)
    two = halves(2, one.cursors)
    two.definitions = one.definitions
    assert two.coordinator.initialize_transaction(2, None, defined) == defined
    assert two.texts(2) == ["a"]
    assert not two.coordinator.is_ready(3)
    two.coordinator.success(2)
    assert [name for name in two.spool.files.names() if name.endswith(".spool")] == ["0000000002-000001.spool"]
    two.coordinator.close()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda path: path.write_bytes(path.read_bytes().replace(b"text", b"TEXT")), "is damaged at byte"),
        (lambda path: path.unlink(), "is missing, and a batch has rows of it"),
    ],
)
def test_a_file_that_has_changed_since_a_batch_was_defined_is_named(
    change: Callable[[Path], object], why: str, tmp_path: Path, halves: Callable[..., Halves]
) -> None:
    one = halves()
    one.define(1)
    one.texts(1)
    one.offer("text")
    change(tmp_path / one.define(2)["ranges"][0]["file"])
    with pytest.raises(SpoutError, match=rf"here: spool file '0000000001-000001.spool' .*{why}"):
        one.texts(2)


def test_records_that_were_exchanged_for_others_are_named(halves: Callable[..., Halves]) -> None:
    one = halves()
    one.define(1)
    one.texts(1)
    one.offer("a", "b")
    one.coordinator.limit_batches(1)
    first, second = one.define(2), one.define(3)
    first["ranges"][0]["hash"] = second["ranges"][0]["hash"]
    with pytest.raises(SpoutError, match="has changed between bytes"):
        one.texts(2)
