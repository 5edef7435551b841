"""What a topology consists of, by what each part says of itself, and how that is kept in the record.

What is stored outlives the program that declared it: a spout's position, a state's values. So a part is known by its
name, and its identity says whether what is stored under that name is still its own.
`coordinators.takeover.changes` compares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import Factory, field, frozen

from coordinators.values.canonical import Json, canonical_json, content_hash

SPOUT = "spout"


@frozen(kw_only=True)
class Declaration:
    """One spout, state, window or sink, as it is declared.

    Attributes:
        kind: ``spout``, ``state``, ``window`` or ``sink``.
        name: under which its position or its data is stored; unique among the spouts, and among all others.
        identity: by word, what it can't change without being another one: a text, or a list with the name of a class
            and those of the classes it is derived from.
        details: by word, what it may change; a change is told.
        fixed: the words of ``identity`` that the stored data holds fast: nobody can accept that they change.
        way: what leads to it, as in ``lines > map > filter``; empty for a spout.
        is_named: whether a user has named it. If not, it is called after its spouts, and ``way`` is its identity too.
    """

    kind: str
    name: str
    identity: Mapping[str, Json] = field(factory=dict)
    details: Mapping[str, Json] = field(factory=dict)
    fixed: frozenset[str] = frozenset()
    way: str = ""
    is_named: bool = True


@frozen(kw_only=True)
class StoredDeclaration:
    """What the record knows of a spout, state, window or sink that was declared at an earlier start.

    Attributes:
        kind: as in `Declaration`; empty where only the name is known, of before declarations were kept.
        identity: as in `Declaration`.
        details: as in `Declaration`.
        way: as in `Declaration`.
        until: the last transaction that it had part in, if it was left out after that; None: it was declared last time.
    """

    name: str
    kind: str = ""
    identity: Mapping[str, Json] = field(factory=dict)
    details: Mapping[str, Json] = field(factory=dict)
    way: str = ""
    until: int | None = None

    @classmethod
    def of(cls, declared: Declaration) -> StoredDeclaration:
        """Return what is to be stored of ``declared``."""
        return cls(
            name=declared.name,
            kind=declared.kind,
            identity=declared.identity,
            details=declared.details,
            way=declared.way,
        )

    @property
    def json(self) -> Json:
        """As it is stored under its name."""
        stored: dict[str, Json] = {
            "kind": self.kind,
            "identity": dict(self.identity),
            "details": dict(self.details),
            "way": self.way,
        }
        return stored if self.until is None else {**stored, "until": self.until}


@frozen
class Declared:
    """What the record says was declared.

    Attributes:
        plan: tells two plans apart; see `Declarations.plan`. Empty: unknown.
        spouts: by name, those left out too.
        outputs: states, windows and sinks by name, those left out too.
    """

    plan: str = ""
    spouts: Mapping[str, StoredDeclaration] = Factory(dict)
    outputs: Mapping[str, StoredDeclaration] = Factory(dict)

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Declared:
        """Read it from `CoordinatorRecord.declared`."""
        spouts, outputs = (
            {name: StoredDeclaration(name=name, **each) for name, each in stored[part].items()}
            for part in ("spouts", "outputs")
        )
        return cls(stored["plan"], spouts, outputs)

    @property
    def json(self) -> Mapping[str, Json]:
        """As it is stored."""
        return {
            "plan": self.plan,
            "spouts": {name: each.json for name, each in self.spouts.items()},
            "outputs": {name: each.json for name, each in self.outputs.items()},
        }


@frozen
class Declarations:
    """All that a topology consists of now.

    Attributes:
        accept: the changes that a user has accepted in this program; see `coordinators.takeover.changes`.
    """

    entries: Sequence[Declaration] = ()
    accept: Sequence[str] = ()

    @property
    def spouts(self) -> dict[str, Declaration]:
        """The spouts by name."""
        return {each.name: each for each in self.entries if each.kind == SPOUT}

    @property
    def outputs(self) -> dict[str, Declaration]:
        """States, windows and sinks by name."""
        return {each.name: each for each in self.entries if each.kind != SPOUT}

    @property
    def plan(self) -> str:
        """8 hex digits, the same as long as the declarations and what leads to each are; functions are not in it."""
        parts = sorted(
            [each.kind, each.name, each.way, canonical_json({word: _own(of) for word, of in each.identity.items()})]
            for each in self.entries
        )
        return content_hash(canonical_json(parts))


def is_same(before: Json, now: Json) -> bool:
    """Tell whether two facts are equal; of classes, whether one is derived from the other."""
    if isinstance(before, list) and isinstance(now, list) and before and now:
        return before[0] in now or now[0] in before
    return before == now


def shown(fact: Json) -> str:
    """Show a fact as messages do."""
    return str(_own(fact))


def _own(fact: Json) -> Json:
    """Return the fact without the classes that a class is derived from."""
    return fact[0] if isinstance(fact, list) and fact else fact
