"""How far the explorer goes, and the choices that it makes on the way."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

from attrs import define, field, frozen

from tests.simulation.stores import StoreKind
from tests.simulation.world import World

T = TypeVar("T")


@frozen
class Scope:
    """How far to go.

    Attributes:
        budgets: how often each fault may happen in one history.
        inline: whether rows travel with a commit, or are staged in the store.
        locks: whether a commit takes a lock first, and lands later.
        tasked: whether tasks make the values of states in the commit.
        exact: whether the source gives every transaction again as it was.
        learns: whether only emitting a batch tells what it consists of.
        gathers: whether a turn may come late, and find several messages; otherwise each message has a turn of its own.
        any_size: whether a batch may be of any size; it may, where a transaction can be another batch the next time.
        shares: whether transactions share jobs and commits.
        residents: how many tasks stay for small batches.
        large_rows: a batch of so many rows commits in a step of its own.
        adds: whether the second life is of a version with a source more.
        leaves: the store that is left out by a version, and comes back with the next one; none: "".
        corrects: whether data of a batch that failed may be corrected before the next takeover.
        poison: the transaction that always fails; 0: none.
        attempts: how often it fails until it is given up.
        refuses: whether a store fails it, when it commits; otherwise its job does.
        parks: whether it is parked instead, and fails until it is mended.
        splits: whether a record takes several writes.
        lags: whether a server may be behind.
        windows: whether rows wait for the next transaction, as in a window that ends at once.
        sources: their names; each has a row less than the one before it.
        reads: which of them each store reads, if not all.
        feeds: the store whose new values go into one more; none: "".
        fed: what that one is: a state, or a sink, which keeps what it has.
        together: whether all stores are in one database, and commit in one transaction of it.
        collects: what the store for bad rows can do; None: no row function raises.
        lives: how often processes may be started, all in all.
    """

    name: str
    budgets: Mapping[str, int]
    max_spout_pending: int = 2
    rows: int = 2
    stores: tuple[StoreKind, ...] = (StoreKind.UNDO,)
    inline: bool = True
    locks: bool = False
    tasked: bool = False
    exact: bool = True
    learns: bool = False
    gathers: bool = False
    any_size: bool = False
    shares: bool = False
    residents: int = 0
    splits: bool = False
    lags: bool = False
    large_rows: int = 10**9
    adds: bool = False
    leaves: str = ""
    corrects: bool = False
    poison: int = 0
    attempts: int = 2
    refuses: bool = False
    parks: bool = False
    windows: bool = False
    sources: tuple[str, ...] = ("spout",)
    reads: Mapping[str, Collection[str]] = field(factory=dict)
    feeds: str = ""
    fed: StoreKind = StoreKind.UNDO
    together: bool = False
    collects: StoreKind | None = None
    processes: int = 2
    lives: int = 2


@define
class Choices:
    """`Chance` for the explorer: follows a list of choices, and notes where there was one to make.

    Attributes:
        budgets: how often each fault may still happen.
        planned: what to choose, in order; 0 where the list ends.
        made: how many options there were at each choice.
    """

    budgets: dict[str, int]
    any_size: bool
    gathers: bool = False
    planned: list[int] = field(factory=list)
    made: list[int] = field(factory=list)

    def happens(self, fault: str) -> bool:
        """Both, as long as the budget lasts."""
        if self.budgets.get(fault, 0) <= 0:
            return False
        happens = bool(self._choose(2))
        self.budgets[fault] -= happens
        return happens

    def pick(self, what: str, options: Sequence[T]) -> T:
        """Every age, and every batch size where that matters; otherwise the first."""
        if what == "how stale" or (what == "batch size" and self.any_size):
            return options[self._choose(len(options))]
        return options[0]

    def delay(self, mean: float) -> float:
        """No time passes."""
        return 0.0

    def _choose(self, count: int) -> int:
        number = len(self.made)
        self.made.append(count)
        return self.planned[number] if number < len(self.planned) else 0


def choices_of(world: World) -> Choices:
    """The choices of a world that is explored."""
    assert isinstance(world.chance, Choices)
    return world.chance
