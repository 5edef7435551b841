"""How many people saw a link? Storm's TridentReach: a request runs through a topology of its own.

Who shared a link and who follows whom is in two states that other systems fill, here two dicts. A request asks the
first for the people who shared its link, the second for the followers of each, and counts those that are different::

    python examples/reach.py foo.com/blog/1
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from trident_py import TridentTopology
from trident_py.operations import Count, MapGet
from trident_py.states import ReadOnlyMapState, ReadOnlyState, StateFactory

SHARED_BY = {
    "foo.com/blog/1": ["sally", "bob", "tim", "george", "nathan"],
    "engineering.twitter.com/blog/5": ["adam", "david", "sally", "nathan"],
    "tech.backtype.com/blog/123": ["tim", "mike", "john"],
}
FOLLOWERS = {
    "sally": ["bob", "tim", "alice", "adam", "jim", "chris", "jai"],
    "bob": ["sally", "nathan", "jim", "mary", "david", "vivian"],
    "tim": ["alex"],
    "nathan": ["sally", "bob", "adam", "harry", "chris", "vivian", "emily", "jordan"],
    "adam": ["david", "carissa"],
    "mike": ["john", "bob"],
    "john": ["alice", "nathan", "jim", "mike", "bob"],
}


class Table(ReadOnlyState, ReadOnlyMapState[list[str]]):
    """Lists by name."""

    def __init__(self, lists: Mapping[str, list[str]]) -> None:
        self.lists = lists

    def multi_get(self, keys: Sequence[Sequence[Any]]) -> list[list[str] | None]:
        return [self.lists.get(name) for (name,) in keys]


@frozen
class TableFactory(StateFactory):
    """Makes a `Table`; a database would be connected to here."""

    lists: Mapping[str, list[str]]

    def make_state(self, *_: Any) -> Table:
        return Table(self.lists)


topology = TridentTopology("reach")
shared_by = topology.new_static_state(TableFactory(SHARED_BY))
followers_of = topology.new_static_state(TableFactory(FOLLOWERS))
(
    topology.new_drpc_stream("reach")
    .state_query(shared_by, "args", MapGet(), "people array<string>")
    .flat_map(lambda row: [(person,) for person in row.people or ()], "person string")
    .state_query(followers_of, "person", MapGet(), "followers array<string>")
    .flat_map(lambda row: [(follower,) for follower in row.followers or ()], "follower string")
    .group_by("follower")
    .aggregate(Count(), "times")
    .aggregate(Count(), "reach")
)

if __name__ == "__main__":
    with topology.start() as query:
        for link in sys.argv[1:] or SHARED_BY:
            [[reach]] = query.execute("reach", link)
            print(f"{link} reached {reach} people")
