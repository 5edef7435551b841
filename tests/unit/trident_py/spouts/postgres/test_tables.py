"""The identity of a publication: what has changed since it was stored."""

from __future__ import annotations

from attrs import evolve

from trident_py.spouts.postgres.tables import Publication, PublishedTable, differences

ORDERS = PublishedTable(
    schema="public", name="orders", names=("id",), filter=None, is_plain=True, identity="7.8", has_key=True
)
SHOP = Publication(5, "insert, update", True, (ORDERS,))


def test_each_change_of_a_publication_is_named() -> None:
    more = evolve(ORDERS, name="more")
    for newer, expected in (
        (SHOP, []),
        (evolve(SHOP, tables=(ORDERS, more)), ["table public.more was added"]),
        (evolve(SHOP, tables=()), ["table public.orders was removed"]),
        (evolve(SHOP, tables=(evolve(ORDERS, identity="7.9"),)), ["table public.orders was replaced or altered"]),
        (
            evolve(SHOP, id=6, operations="insert"),
            ["operations was replaced or altered", "publication was replaced or altered"],
        ),
    ):
        assert differences(SHOP.identity, newer.identity) == expected
