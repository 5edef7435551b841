"""What readers may see while processes are killed."""

from __future__ import annotations

from tests.faults.looking import measures
from tests.faults.readers import Look, torn

TRANSACTIONS = {1: measures([0, 1, 2]), 2: measures([3]), 4: measures([4, 5])}


def test_whole_transactions_from_the_first_on_are_right_in_a_store_that_does_not_tell_them_apart() -> None:
    for whole in ([], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4, 5]):
        assert not [*torn([Look("psql", "table", [[None, *measures(whole)]])], TRANSACTIONS)]
    for part in ([0, 1], [3], [0, 1, 2, 4, 5], [0, 1, 2, 3, 4], [0, 1, 2, 3, 3], [0, 0, 3]):
        [text] = torn([Look("psql", "table", [[None, *measures(part)]])], TRANSACTIONS)
        assert text.startswith("psql in table: ")


def test_each_transaction_that_is_told_apart_has_all_its_rows() -> None:
    assert not [*torn([Look("duckdb", "files", [[1, *measures([0, 1, 2])], [4, *measures([4, 5])]])], TRANSACTIONS)]
    [part, other] = torn([Look("duckdb", "files", [[1, *measures([0, 1])], [3, *measures([3])]])], TRANSACTIONS)
    assert "transaction 1" in part
    assert "transaction 3" in other


def test_who_could_not_read_says_why() -> None:
    assert [*torn([Look("spark", "delta", error="a file is gone")], TRANSACTIONS)] == ["spark in delta: a file is gone"]
