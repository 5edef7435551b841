"""Changes of a table, and the table afterwards, for sinks that merge them."""

from __future__ import annotations

from typing import Any

from attrs import define, field
from hypothesis import strategies as st

FIELDS = (
    "_op string, id bigint, n bigint, doc string, _old struct<id bigint, n bigint, doc string>, "
    "_unchanged array<string>, _lsn bigint, _n bigint"
)


@define
class Table:
    """The table that is changed, and the changes, as rows."""

    rows: dict[int, tuple[int, str]] = field(factory=dict)
    changes: list[tuple[Any, ...]] = field(factory=list)

    def change(
        self, op: str, id: int, n: int = 0, doc: str = "", *, old: int | None = None, keeps: bool = False
    ) -> None:
        """Make one change; ``keeps``: the large value stays, and isn't in the row."""
        if op in ("delete", "update"):
            before = self.rows.pop(id if old is None else old)
            doc = before[1] if keeps else doc
        if op == "truncate":
            self.rows = {}
        elif op != "delete":
            assert id not in self.rows
            self.rows[id] = (n, doc)
        is_all = op not in ("truncate", "delete")
        values = (None if op == "truncate" else id, n if is_all else None, doc if is_all and not keeps else None)
        known = None if old is None else (old, None, None)
        self.changes.append((op, *values, known, ["doc"] if keeps else None, 7, len(self.changes) + 1))

    def draw(self, data: st.DataObject) -> None:
        """Make any change that is possible now."""
        n, free = len(self.changes), [id for id in range(1, 5) if id not in self.rows]
        kinds = ["truncate", *(["insert"] if free else []), *(["delete", "update"] if self.rows else [])]
        kinds += ["move", "move"] if free and self.rows else []
        kind, keeps = data.draw(st.sampled_from(kinds)), data.draw(st.booleans())
        there = data.draw(st.sampled_from(sorted(self.rows))) if self.rows else 0
        match kind:
            case "insert":
                self.change("insert", data.draw(st.sampled_from(free)), n, f"doc {n}")
            case "move":
                self.change("update", data.draw(st.sampled_from(free)), n, f"doc {n}", old=there, keeps=keeps)
            case "update":
                self.change("update", there, n, f"doc {n}", keeps=keeps)
            case _:
                self.change(kind, there)

    def batch(self) -> list[tuple[Any, ...]]:
        """Return the changes since the last call, in another order."""
        found, self.changes = self.changes[::-1], []
        return found
