"""The change of a batch in the order of its keys, and in pieces that are worked on one after the other."""

from __future__ import annotations

import pyarrow as pa

from trident_py.rows.row import column_values
from trident_py.states.keys import encode_keys

PORTION_ROWS = 4 * 1024
"""Of a change, as Python's objects at a time: a million keys take 300 MiB, and to collect such garbage takes as long as
to write what it stands for (43 000 keys at once: 245 ms; in portions of 64 Ki, 16 Ki and 4 Ki: 245, 210 and 165)."""


def portions(change: pa.Table, keys: int) -> list[pa.Table]:
    """Cut ``change`` into pieces of some rows, in the order of the first ``keys`` columns, if Arrow compares them.

    Neighbouring keys share a store's pages: a table larger than its cache is written twice as fast that way.
    """
    if change.num_rows <= PORTION_ROWS:
        return [change]
    ordered = _sorted(change, keys) if _compares(change, keys) else change
    return [ordered.slice(first, PORTION_ROWS) for first in range(0, ordered.num_rows, PORTION_ROWS)]


def in_key_order(change: pa.Table, keys: int) -> pa.Table:
    """Return the rows in the order of their keys, those of one key in the order they have; without keys: as they are.

    Keys that Arrow doesn't compare come in the order of their texts.
    """
    if _compares(change, keys):
        return _sorted(change, keys) if keys else change
    texts = encode_keys(list(zip(*map(column_values, change.columns[:keys]), strict=True)))
    return change.take(pa.array(sorted(range(len(texts)), key=texts.__getitem__), pa.int64()))


def _compares(change: pa.Table, keys: int) -> bool:
    return not any(pa.types.is_nested(kind) for kind in change.schema.types[:keys])


def _sorted(change: pa.Table, keys: int) -> pa.Table:
    numbered = change.rename_columns([str(number) for number in range(change.num_columns)])
    return numbered.sort_by([(str(number), "ascending") for number in range(keys)])
