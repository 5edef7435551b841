"""A hash of rows by their values, computed from columns: the same on the driver and in every task.

It depends neither on the order of the rows, nor on how they are split into Arrow data. No version of Python or of a
library changes it. NumPy computes it for all rows at once: a million values take some hundredths of a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from coordinators.values.canonical import Fingerprint

KIND = "rows"
"""The kind of `hash_rows`, which is compared with hashes. It must change with the hash."""

CHUNK_ROWS = 2048
_PAGE = 1 << 16
_BASE = 0x9E3779B97F4A7C15
_NULL = np.uint64(0xD6E8FEB86659FD93)


def _powers(base: int) -> np.ndarray:
    return np.multiply.accumulate(np.array([1, *[base % 2**64] * _PAGE], np.uint64))


_POWERS, _INVERSE_POWERS = _powers(_BASE), _powers(pow(_BASE, -1, 2**64))


def hash_rows(data: pa.Table | pa.RecordBatch) -> Fingerprint:
    """Return the fingerprint of the rows of ``data``: the sum of their hashes, modulo 2^64."""
    batches = data.to_batches(CHUNK_ROWS) if isinstance(data, pa.Table) else _chunks(data)
    return Fingerprint(data.num_rows, sum(map(_hash_batch, batches)) % 2**64, KIND)


def _chunks(batch: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
    return [batch.slice(first, CHUNK_ROWS) for first in range(0, batch.num_rows, CHUNK_ROWS)]


def _hash_batch(batch: pa.RecordBatch) -> int:
    return int(hashes_of_rows(batch).sum(dtype=np.uint64))


def hashes_of_rows(batch: pa.RecordBatch) -> np.ndarray:
    """Return the hash of each row, as unsigned 64-bit numbers; for at most about `CHUNK_ROWS` rows."""
    return _joined(map(_hashes, batch.columns), batch.num_rows)


def _joined(columns: Iterable[np.ndarray], count: int) -> np.ndarray:
    """Return the hashes of rows from their columns."""
    joined: np.ndarray = np.zeros(count, np.uint64)
    for hashes in columns:
        joined = mixed(joined + hashes)
    return joined


def mixed(words: np.ndarray) -> np.ndarray:
    """Return SplitMix64 of each word: different words stay different."""
    words = words + np.uint64(_BASE)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    return words


def _hashes(array: pa.Array) -> np.ndarray:
    """Return the hash of each value; `_joined` mixes it."""
    hashes = _hashes_of_type(array) if len(array) else np.zeros(0, np.uint64)
    if array.null_count:
        return np.where(array.is_valid().to_numpy(zero_copy_only=False), hashes, _NULL)
    return hashes


def _hashes_of_type(array: pa.Array) -> np.ndarray:
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        _, offsets, data = array.buffers()
        values = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
        return _hashes_of_sequences(values, np.frombuffer(offsets, "<i4", len(array) + 1, 4 * array.offset))
    if pa.types.is_list(kind):
        offsets = array.offsets.to_numpy()
        return _hashes_of_sequences(mixed(_hashes(_between(array.values, offsets))), offsets - offsets[0])
    if pa.types.is_map(kind):
        offsets = array.offsets.to_numpy()
        entries = [_hashes(_between(each, offsets)) for each in (array.keys, array.items)]
        return _hashes_of_sequences(_joined(entries, len(entries[0])), offsets - offsets[0])
    if pa.types.is_struct(kind):
        return _joined((_hashes(array.field(number)) for number in range(kind.num_fields)), len(array))
    if pa.types.is_decimal128(kind):
        return _joined(_fixed(array, "<u8", 2).reshape(-1, 2).T, len(array))
    return _words(array)


def _words(array: pa.Array) -> np.ndarray:
    """Return each value as a 64-bit number."""
    kind = array.type
    if pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    elif pa.types.is_floating(kind):
        numbers: np.ndarray = _fixed(array, f"<f{kind.bit_width // 8}").astype("<f8")
        numbers[np.isnan(numbers)] = np.nan
        return numbers.view(np.uint64)
    elif not (pa.types.is_integer(kind) or pa.types.is_temporal(kind)):
        raise TypeError(f"a row cannot hold values of the Arrow type {kind}")
    numbers = _fixed(array, f"<i{array.type.bit_width // 8}").astype("<i8")
    return numbers.view(np.uint64)


def _fixed(array: pa.Array, dtype: str, words: int = 1) -> np.ndarray:
    first = array.offset * words * np.dtype(dtype).itemsize
    return np.frombuffer(array.buffers()[1], dtype, len(array) * words, first)


def _between(values: pa.Array, offsets: np.ndarray) -> pa.Array:
    return values.slice(offsets[0], offsets[-1] - offsets[0])


def _hashes_of_sequences(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the hash of each run of ``values``; the first is from ``offsets[0]`` to ``offsets[1]``, and so on."""
    count, first = len(offsets) - 1, 0
    sums = np.empty(count, np.uint64)
    while first < count:
        stop = int(np.searchsorted(offsets, int(offsets[first]) + _PAGE, "right")) - 1
        if stop > first:
            part = values[offsets[first] : offsets[stop]]
            sums[first:stop] = _sums(part, offsets[first : stop + 1] - offsets[first])
        else:
            stop = first + 1
            sums[first:stop] = _sum_of_pages(values[offsets[first] : offsets[stop]])
        first = stop
    return sums


def _sums(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the weighted sum of each run and a final 1: the weights are 1, the base, its square, and so on."""
    upto = np.zeros(len(values) + 1, np.uint64)
    np.cumsum(values * _POWERS[: len(values)], out=upto[1:])
    starts, ends = offsets[:-1], offsets[1:]
    sums: np.ndarray = (upto[ends] - upto[starts]) * _INVERSE_POWERS[starts] + _POWERS[ends - starts]
    return sums


def _sum_of_pages(values: np.ndarray) -> np.ndarray:
    """Return the sum of one run that is longer than a page."""
    whole = np.arange(0, len(values), _PAGE)
    sums = [_sums(values[at : at + _PAGE], np.array([0, len(values[at : at + _PAGE])])) for at in whole]
    return _hashes_of_sequences(mixed(np.concatenate(sums)), np.array([0, len(sums)]))
