"""What a comparison of a topology with its record has found: what is told, what is refused, what was accepted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import define, field

from coordinators.record.declarations import Declaration, is_same, shown
from coordinators.record.record import CoordinatorRecord
from coordinators.values.canonical import Json, canonical_json, content_hash


@define
class Findings:
    """What was found so far.

    Attributes:
        record: as it was found.
        accept: what a user has accepted in this program.
        lines: to be told.
        refusals: why the topology can't go on.
        used: those of ``accept`` that fit a change.
    """

    record: CoordinatorRecord
    accept: Sequence[str]
    lines: list[str] = field(factory=list, init=False)
    refusals: list[str] = field(factory=list, init=False)
    used: list[str] = field(factory=list, init=False)

    @property
    def at(self) -> int:
        """The transaction that comes next."""
        return self.record.current_txid

    def tell(self, before: Mapping[str, Json], now: Declaration, words: Iterable[str]) -> None:
        """Tell that these facts of ``now`` were others."""
        facts = {**now.identity, **now.details}
        for word in sorted(words):
            self.lines.append(
                f"{now.kind} {now.name!r}: its {word} changed from {shown(before[word])!r} to {shown(facts[word])!r}, "
                f"with transaction {self.at}"
            )

    def accepted(self, kind: str, name: str, before: Json, now: Json, refusal: str) -> bool:
        """Tell whether the user accepts this change; if not, it is refused."""
        text = accept_text(self.record, kind, name, before, now)
        if text in self.accept:
            self.used.append(text)
            self.lines.append(f"{kind} {name!r}: goes on as accepted by {text}, from transaction {self.at} on")
            return True
        self.refusals.append(f"{refusal}, accept it: TridentConfig(accept=[{text!r}])")
        return False

    def unused(self) -> None:
        """Tell of what was accepted and fits nothing."""
        for text in self.accept:
            if text not in (*self.used, *self.record.accepted):
                self.lines.append(f"accept={text!r} fits no change of this start, and is ignored")


def accept_text(record: CoordinatorRecord, kind: str, name: str, before: Json, now: Json) -> str:
    """Return what a user writes to accept that this part of a topology changes so.

    It is another text each time, so that one that was used fits nothing later.
    """
    start = f"{kind}:{name}:"
    times = sum(each.startswith(start) for each in record.accepted)
    return start + content_hash(canonical_json([before, now, times]))


def changed_words(before: Mapping[str, Json], now: Mapping[str, Json]) -> list[str]:
    """Return the words whose facts differ; of a word that only one side has nothing is known."""
    return sorted(word for word in before.keys() & now.keys() if not is_same(before[word], now[word]))


def were(before: Mapping[str, Json], now: Mapping[str, Json], words: Iterable[str]) -> str:
    """Show what these words were and are, as messages do."""
    return " and ".join(f"its {word} changed from {shown(before[word])!r} to {shown(now[word])!r}" for word in words)


def span(txids: Iterable[int]) -> str:
    """Show transactions that follow each other, as messages do."""
    first, *rest = txids
    return f"transactions {first} to {rest[-1]}" if rest else f"transaction {first}"
