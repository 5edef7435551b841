"""The declared parts of a topology: spouts, states, windows and sinks, and their stored form in the record.

Stored data outlives the program that declared it, such as a spout's position or a state's values. So a part is known by
its name, and its identity tells whether the data that is stored under that name still belongs to it. The module
`coordinators.takeover.changes` compares them.
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
        kind: ``spout``, ``state``, ``window``, ``join`` or ``sink``.
        name: under which its position or its data is stored; unique among the spouts, and among all others.
        identity: by word, the facts that make it this part; if one changes, it is another part. A fact is a text, or a
            list with the name of a class and the names of its base classes.
        details: by word, the facts that may change; a change is logged.
        fixed: the words of ``identity`` on which the stored data depends: a user can't accept that they change.
        way: the operations that lead to it, as in ``lines > map > filter``; empty for a spout.
        is_named: whether a user has named it. If not, it is named after its spouts, and ``way`` belongs to its identity
            too.
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
    """A spout, state, window or sink that was declared at an earlier start, as the record stores it.

    Attributes:
        kind: as in `Declaration`; empty if only the name is known, from before declarations were stored.
        identity: as in `Declaration`.
        details: as in `Declaration`.
        way: as in `Declaration`.
        until: if it was left out of the topology, the last transaction that it took part in; None: it was declared at
            the last start.
    """

    name: str
    kind: str = ""
    identity: Mapping[str, Json] = field(factory=dict)
    details: Mapping[str, Json] = field(factory=dict)
    way: str = ""
    until: int | None = None

    @classmethod
    def of(cls, declared: Declaration) -> StoredDeclaration:
        """Return the stored form of ``declared``."""
        return cls(
            name=declared.name,
            kind=declared.kind,
            identity=declared.identity,
            details=declared.details,
            way=declared.way,
        )

    @property
    def hash(self) -> str:
        """8 hex digits that change with its kind and identity."""
        return content_hash(canonical_json([self.kind, {word: _own(fact) for word, fact in self.identity.items()}]))

    @property
    def json(self) -> Json:
        """The stored form under its name."""
        stored: dict[str, Json] = {
            "kind": self.kind,
            "identity": dict(self.identity),
            "details": dict(self.details),
            "way": self.way,
        }
        return stored if self.until is None else {**stored, "until": self.until}


@frozen
class Declared:
    """The declarations in the record.

    Attributes:
        plan: distinguishes plans; see `Declarations.plan`. Empty: unknown.
        spouts: by name, including those that were left out.
        outputs: states, windows and sinks by name, including those that were left out.
    """

    plan: str = ""
    spouts: Mapping[str, StoredDeclaration] = Factory(dict)
    outputs: Mapping[str, StoredDeclaration] = Factory(dict)

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Declared:
        """Return the declarations of `CoordinatorRecord.declared`."""
        spouts, outputs = (
            {name: StoredDeclaration(name=name, **each) for name, each in stored[part].items()}
            for part in ("spouts", "outputs")
        )
        return cls(stored["plan"], spouts, outputs)

    @property
    def json(self) -> Mapping[str, Json]:
        """The stored form."""
        return {
            "plan": self.plan,
            "spouts": {name: each.json for name, each in self.spouts.items()},
            "outputs": {name: each.json for name, each in self.outputs.items()},
        }


@frozen(kw_only=True)
class Migration:
    """A change of a stored part that the program carries out; see `coordinators.takeover.migrations`.

    Attributes:
        name: the stored name of the part.
        rename: its name from now on; empty: it stays.
        is_dropped: whether the record forgets the part.
        words: the facts of its identity that may change, because its values are migrated.
        function: the name of the function that migrates the values; empty: no function does.
    """

    name: str
    rename: str = ""
    is_dropped: bool = False
    words: frozenset[str] = frozenset()
    function: str = ""


@frozen
class Declarations:
    """The current declarations of a topology.

    Attributes:
        accept: the changes that a user has accepted in this program; see `coordinators.takeover.changes`.
        migrations: the changes of stored parts that the program carries out.
    """

    entries: Sequence[Declaration] = ()
    accept: Sequence[str] = ()
    migrations: Sequence[Migration] = ()

    def renamed(self, name: str) -> str:
        """Return the name that a stored part has from now on."""
        for each in self.migrations:
            if each.rename and each.name == name:
                name = each.rename
        return name

    def migrations_of(self, name: str) -> list[Migration]:
        """Return the migrations of the values of the part that is declared as ``name``."""
        return [each for each in self.migrations if each.words and self.renamed(each.name) == name]

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
        """8 hex digits that change with the declarations and the operations before each; functions are not included."""
        parts = sorted(
            [each.kind, each.name, each.way, canonical_json({word: _own(of) for word, of in each.identity.items()})]
            for each in self.entries
        )
        return content_hash(canonical_json(parts))


def is_same(before: Json, now: Json) -> bool:
    """Return true if two facts are equal; for classes, if one is derived from the other."""
    if isinstance(before, list) and isinstance(now, list) and before and now:
        return before[0] in now or now[0] in before
    return before == now


def shown(fact: Json) -> str:
    """Format a fact for messages."""
    return str(_own(fact))


def _own(fact: Json) -> Json:
    """Return the fact without the base classes of a class."""
    return fact[0] if isinstance(fact, list) and fact else fact
