"""How much of an object store's listing a look asks for, by a server that counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from benchmarks.list_server import PAGE_KEYS, Handler, ListServer
from benchmarks.looks import LOOKS, measured

COUNT = 2 * PAGE_KEYS + 500


@pytest.fixture
def url() -> Iterator[str]:
    with ListServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server.url
        server.shutdown()
        thread.join()


def test_a_look_in_any_order_lists_all_objects(url: str, tmp_path: Path) -> None:
    told = measured(url, COUNT, "any", str(tmp_path))
    assert (told["requests"], told["keys"]) == (LOOKS * 3, sum(COUNT + 1 + number for number in range(LOOKS)))


def test_a_look_in_the_order_of_names_lists_the_new_ones(url: str, tmp_path: Path) -> None:
    told = measured(url, COUNT, "name", str(tmp_path))
    assert (told["requests"], told["keys"]) == (LOOKS, LOOKS)
    assert told["full_requests"] == 3 + 1  # and once for new ones
    assert told["position"] < 1000
