"""The effect of a batch of changes on a table of a database."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from trident_py.sinks.changes import Merge, MergeFields, in_order, merged, old_keys
from trident_py.states.sql.columns import TypedColumn
from trident_py.states.sql.stored import StoredRows


def merged_rows(data: pa.Table, columns: Sequence[TypedColumn], keys: Sequence[int], fields: MergeFields) -> Merge:
    """Return the effect of a batch of changes, with values in their stored form.

    Raises:
        UnfitError: a column can't hold a value.
        SinkError: a row keeps values of a row that isn't there.
    """
    data = in_order(data, fields)
    names, key_columns = [column.name for column in columns], [columns[place] for place in keys]
    rows = StoredRows(columns, data.select(names).combine_chunks(), keys)
    old = old_keys(
        data,
        [column.name for column in key_columns],
        lambda found: StoredRows(key_columns, found, range(len(keys))).texts(),
    )
    return merged(data, fields, names, values=rows.rows(), keys=rows.texts(), old_keys=old)
