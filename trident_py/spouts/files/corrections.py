"""Files that were corrected in place while their topology was stopped, because a batch of them failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import evolve, frozen

from coordinators.values.batch_coordinator import Correction
from trident_py.spouts.files.content import Content, file_errors, open_content
from trident_py.spouts.files.identity import HASHED_BYTES, Identity, digest, start_of
from trident_py.spouts.files.lines import last_line_end, line_end
from trident_py.spouts.files.paths import PathPattern
from trident_py.spouts.files.splits import Split, StoredSplit

Definitions = Mapping[int, Sequence[StoredSplit]]


@frozen
class Corrected:
    """A file that has changed since it was read, from the first line that no output has.

    Attributes:
        first: the lines that were to be read first.
        now: the lines that would be read instead.
    """

    first: Split
    now: Split


def corrected(definitions: Definitions, pattern: PathPattern, bytes_max: int) -> Correction[list[StoredSplit]] | None:
    """Return the correction for files that were changed in place; None: no file was.

    Each file is read from the beginning of its first batch in ``definitions``; its later batches have no lines of it.
    """
    splits = {number: [Split.parse(stored) for stored in each] for number, each in definitions.items()}
    first: dict[str, Split] = {}
    for number in sorted(splits):
        for split in splits[number]:
            if split.size:
                first.setdefault(split.path, split)
    paths = pattern.find()
    there = {path: split for path, split in first.items() if path in paths}
    found = {path: each for path, split in there.items() if (each := _corrected(split, bytes_max))}
    if not found:
        return None
    return Correction(
        what=" and ".join(
            f"the bytes of file {path!r} from {each.first.start} on have changed" for path, each in found.items()
        ),
        checked="; ".join(map(_checked, found.values())),
        before=[each.first.stored for each in found.values()],
        now=[each.now.stored for each in found.values()],
        definitions=_redefined(splits, found),
        moved={path: each.now.cursor for path, each in found.items()},
    )


def _redefined(splits: Mapping[int, Sequence[Split]], found: Mapping[str, Corrected]) -> dict[int, list[StoredSplit]]:
    """Return the batches with lines of a corrected file: the first batch of each file has all of its new lines."""
    changed = {
        number: [
            found[split.path].now if split is found[split.path].first else split
            for split in each
            if split.path not in found or split is found[split.path].first
        ]
        for number, each in splits.items()
        if any(split.path in found for split in each)
    }
    return {number: [split.stored for split in each] for number, each in changed.items()}


def _corrected(split: Split, bytes_max: int) -> Corrected | None:
    beside = [str(each) for each in Path(split.path).parent.iterdir() if each.is_file()]
    if split.identity is None or any(_fits(split.identity, path) for path in beside):
        return None  # it is as it was, perhaps under another name
    with file_errors(split.path), open_content(split.path) as content:
        if not _has_prefix(content, split):
            return None
        size = content.size
        end = _end(content, split, size, bytes_max)
        identity = Identity.of(content, size)
        if identity is None or end is None:
            return None
        return Corrected(split, evolve(split, end=end, seen=size, identity=identity))


def _end(content: Content, split: Split, size: int, bytes_max: int) -> int | None:
    """Return the end of the new lines: a batch, or as many bytes as before, but one line at least."""
    limit = min(size, split.start + max(split.size, bytes_max))
    if size <= split.start:
        return split.start if size == split.start else None
    return last_line_end(content, split.start, limit) or line_end(content, limit, size) or size


def _fits(identity: Identity, path: str) -> bool:
    try:
        with open_content(path) as content:
            return identity.fits(content)
    except OSError:
        return False


def _has_prefix(content: Content, split: Split) -> bool:
    """Return whether the bytes before the lines are unchanged, as far as their hashes were stored."""
    start = split.start
    if start and content.read_at(start - 1, 1) != b"\n":
        return False
    if split.identity is not None and start >= HASHED_BYTES:
        return digest(content.read_at(0, HASHED_BYTES)) == split.identity.head
    told = start_of(content.read_at(0, start))
    return split.identity is not None and split.identity.start.startswith(told)


def _checked(each: Corrected) -> str:
    start = each.first.start
    if not start:
        return f"nothing of {each.first.path!r} was counted before"
    hashed = HASHED_BYTES if start >= HASHED_BYTES else min(64, start)
    known = f"of the {start} bytes of {each.first.path!r} before, hashes of the first {hashed} are kept and fit"
    return known if hashed == start else f"{known}, that the rest is as it was is your word"
