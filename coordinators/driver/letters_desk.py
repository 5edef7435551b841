"""`LettersDesk`: carries out wishes to process dead letters.

A wish is carried out in two steps. The data plane reads the letters between two commits, and stores their rows. Then
one event for the machine, `Wished`, puts an entry for each branch onto the list of parked transactions, from where it
is released. The transaction that releases an entry also takes its letters out of the place where they are kept.

So no letter is released twice: the letters of a branch are not taken while the list has an entry of it. Once the entry
has left the list, a read doesn't find its letters any more.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field

from coordinators.batches.parking_rules import ParkingRules
from coordinators.driver.wish_desk import WishDesk
from coordinators.protocol.messages import DeadLetters, LettersRead
from coordinators.protocol.protocol import Wished
from coordinators.record.parking import Parked
from coordinators.record.wishes import Action, Wish


@define
class LettersDesk:
    """Decides in the turns of one leadership. Pure."""

    wishes: WishDesk
    rules: ParkingRules
    _reading: Wish | None = field(default=None, init=False)

    def events(self) -> Iterator[Wished]:
        """Yield the outcomes of wishes that are refused at once."""
        for wish in self._waiting():
            if wish != self._reading and (refusal := self.rules.refusal(wish)):
                self.wishes.decide(wish)
                yield Wished(wish, refusal)

    def due(self) -> Wish | None:
        """Return the wish for which letters are read now, if any; one at a time."""
        if self._reading is not None:
            return None
        self._reading = next(iter(self._waiting()), None)
        return self._reading

    def read(self, message: LettersRead, wall: float) -> Iterator[Wished]:
        """Yield the outcome of the wish, now that its letters are read; ``wall`` is as in `Parked.since`."""
        wish, self._reading = message.wish, None
        if wish not in self.wishes.waiting:
            return  # it was withdrawn
        self.wishes.decide(wish)
        free = [_entry(each, wish, wall) for each in message.letters if each.branch not in self._under_way]
        refusal = self.rules.refusal(wish) or message.refusal
        if not refusal and not free:
            listed = [repr(each.branch) for each in message.letters]
            refusal = f"those of {' and '.join(listed)} are being processed" if listed else "there are no such letters"
        refusal = refusal or next(filter(None, map(self.rules.unreleasable, free)), "")
        yield Wished(wish, refusal, letters=() if refusal else tuple(free))

    @property
    def _under_way(self) -> set[str]:
        """The branches with letters on the list."""
        return {each.letters_of for each in self.rules.admission.machine.parked.entries}

    def _waiting(self) -> list[Wish]:
        return [each for each in self.wishes.waiting if each.action is Action.LETTERS]


def _entry(letters: DeadLetters, wish: Wish, wall: float) -> Parked:
    return Parked(
        txid=letters.txid,
        number=0,
        definition=dict.fromkeys(letters.stored),
        stored=letters.stored,
        since=wall,
        by=wish.by,
        reason=wish.reason,
        is_wanted=True,
        letters_of=letters.branch,
    )
