"""A topology from a real NATS stream."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from examples.nats_orders import sums
from tests.servers.nats_server import NATSServer
from trident_py import SpoutError
from trident_py.testing import LocalCoordination, run_batches

pytestmark = pytest.mark.nats


def test_the_example_sums_each_order_once_and_stops_if_one_is_lost(nats: NATSServer, tmp_path: Path) -> None:
    coordination, path = LocalCoordination(), tmp_path / "sums.db"
    nats.make_stream("orders")
    for _ in range(2):
        nats.publish("orders.web", b'{"item": "pen", "amount": 2}', b'{"item": "ink", "amount": 1}')
        run_batches(sums(nats.url, str(path)), coordination)
    nats.publish("orders.web", b'{"item": "pen", "amount": 2}')
    nats.ask("STREAM.PURGE.orders")
    with pytest.raises(SpoutError, match=r"topology 'orders', spout 'orders'.*1 unread messages after message 4 were"):
        run_batches(sums(nats.url, str(path)), coordination)
    with closing(sqlite3.connect(path)) as reader:
        assert reader.execute("SELECT item, amount FROM sums ORDER BY item").fetchall() == [("ink", 2), ("pen", 4)]
