"""The durable state of a topology: one record, always written and read as a whole.

The record is a head of some kilobytes plus blobs for the larger parts: cursors, and metadata above 4 KiB. If there is
much metadata, this limit is lower. A blob never changes: its name ends in a digest of its text, and a changed text
becomes another blob. This has three consequences:

- Blobs may be stored before the head that names them.
- When a record is read, parts that don't belong together are detected.
- The size of a record has no limit except that each of its parts must fit into one write.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from attrs import asdict, define, evolve, field, frozen

from coordinators.record.bad_rows import BadRow, bad_rows_json, bad_rows_of
from coordinators.record.parking import NOTHING_PARKED, Parked, ParkedList, Parking
from coordinators.record.wishes import NOTHING_STANDS, Outcome, Standing
from coordinators.values.attempt import INITIAL_TXID, TransactionAttempt
from coordinators.values.canonical import Fingerprint, Json, canonical_json, content_digest, content_hash, other_version
from coordinators.values.cursors import Cursors, CursorShard
from coordinators.values.errors import MetadataError, our_bug

T = TypeVar("T")


@frozen
class Number:
    """A transaction with a batch: spouts know it by this number. Numbers are dense."""

    number: int


@frozen
class Empty:
    """A transaction without a batch: only time passes in it, so that windows close without input."""


@frozen
class Released:
    """A transaction that releases the parked transaction ``id``: its batch has the number of that one."""

    id: int


Binding: TypeAlias = Number | Empty | Released
"""A transaction's first attempt binds it, for ever."""


@frozen
class Bindings:
    """The binding of each transaction: to a number, unless it is listed here.

    Until the first one that is listed, a transaction's number is its txid. Spouts only see numbers. States, sinks, the
    status and errors use txids.

    Attributes:
        empty: the txids of empty transactions, ascending.
        forgotten: how many transactions without a number there were before those that are listed. For
            txids up to the last of these, no number is known.
        released: for each transaction that releases a parked one, the id of that one.
    """

    empty: tuple[int, ...] = ()
    forgotten: int = 0
    released: Mapping[int, int] = field(factory=dict)

    def of(self, txid: int) -> Binding:
        """Return the binding of ``txid``, or the one it will have if all before it that are unbound get numbers."""
        if txid in self.released:
            return Released(self.released[txid])
        return Empty() if txid in self.empty else Number(self.upto(txid))

    def number(self, txid: int) -> int | None:
        """Return the number of ``txid``; None: it is empty, or has the number of a parked one."""
        if not (self.empty or self.released):
            return txid - self.forgotten
        match self.of(txid):
            case Number(number):
                return number
            case Empty() | Released():
                return None

    def upto(self, txid: int) -> int:
        """Return the number of the last transaction up to ``txid`` that has one."""
        return txid - self.forgotten - sum(each <= txid for each in self._unnumbered)

    def txid(self, number: int) -> int:
        """Return the transaction with this number."""
        txid = number + self.forgotten
        for each in self._unnumbered:
            txid += each <= txid
        return txid

    @property
    def _unnumbered(self) -> Sequence[int]:
        return sorted([*self.empty, *self.released]) if self.released else self.empty

    def bind(self, txid: int, binding: Binding) -> Bindings:
        """Return the bindings after ``txid``, which is above all attempted transactions, is bound."""
        match binding:
            case Number(number):
                assert number == self.upto(txid), our_bug(f"transaction {txid} is bound to {number}")
                return self
            case Empty():
                return evolve(self, empty=(*self.empty, txid))
            case Released(parked):
                return evolve(self, released={**self.released, txid: parked})

    def kept_from(self, txid: int) -> Bindings:
        """Return the same bindings, without those of txids below ``txid``."""
        empty = tuple(each for each in self.empty if each >= txid)
        released = {each: parked for each, parked in self.released.items() if each >= txid}
        forgotten = len(self._unnumbered) - len(empty) - len(released)
        return Bindings(empty, self.forgotten + forgotten, released)


RECORD_VERSION = 8
"""Of the format of records. Versions 1 to 7 were written before the first release; they are refused."""

INLINE_BYTES_MAX = 4 * 1024
"""The maximum size of metadata that is stored in the head, see `INLINE_TOTAL_BYTES_MAX`."""

INLINE_TOTAL_BYTES_MAX = 64 * 1024
"""The maximum size of all metadata in the head together."""


@frozen
class CommitIntent:
    """An attempt with a commit that may have begun, and the hash of its definition."""

    attempt: TransactionAttempt
    hash: str


@frozen
class Failure:
    """The failures of a transaction that is not committed.

    Attributes:
        count: failures by its own code or data, which `Retries` counts. If the topology has ended because of it, a
            start gives it one more try.
        attempt_id: the attempt that failed last; -1: the transaction could not be defined.
        cause: the last error, as text.
        since: when it failed for the first time, seconds since 1970 by the leader's clock; shown, never compared.
        last: when it failed last, likewise.
        tries: failures of any kind.
        spout: the spout with an unreachable source that it waits for; None: it doesn't wait for a source.
    """

    count: int
    attempt_id: int
    cause: str
    since: float
    last: float
    tries: int = 0
    spout: str | None = None

    def lasted(self, now: float) -> str:
        """Return how often it was tried, and for how long by ``now``, in seconds since 1970."""
        times = "1 try" if self.tries == 1 else f"{self.tries} tries"
        return f"{times}, {max(0.0, now - self.since):,.0f} s"


# large: one field for each stored value, since all of them are replaced in one write
@frozen
class CoordinatorRecord:
    """The durable state of one topology.

    Attributes:
        epoch: the leadership that wrote it.
        seq: counts writes over all epochs. After a write with unknown outcome, it tells whether the write was stored.
        current_txid: the lowest transaction that is not committed.
        attempt_ids: last attempt id by txid, from ``success_upto + 1`` on. Those below ``current_txid`` are committed
            and their success is still owed; the others were tried and are not committed.
        metadata: definition by number, then by spout; kept for the active transactions and the one before them.
        committing: attempts whose commit may have begun and is not closed.
        states: the txid at which each state joined the topology.
        committed_as: the attempt id by which the transaction before ``current_txid`` was committed; -1: there is no
            such transaction. A state that rolls back replayed transactions has no earlier attempt of it.
        cursors: positions by spout.
        success_upto: the last transaction whose success was delivered.
        fingerprints: of the rows of attempts, by number, then by spout; for transactions that are not committed.
        failures: by txid, of transactions that have failed and are not committed.
        times: by txid, the transaction's time in milliseconds since 1970, fixed when it was first admitted; of the
            active transactions and the one before them.
        declared: the parts of the topology at its last start, by kind and name; None: unknown, the record was
            written by a release that didn't store them.
        accepted: the changes that a user has accepted, in the order of their use; each is used once.
        resting: the last metadata of each spout that is not declared any more; if the spout comes back, it continues
            from there.
        gaps: by state, the transactions that it was left out of, as a user has accepted; the last such gap of each.
        bindings: of each attempted transaction, its number or that it is empty.
        standing: the wishes of operators that are in effect.
        outcomes: of the last wishes, oldest first.
        parked: the transaction that is being parked, and the parked ones.
        bad_rows: by txid, the rows that each attempt leaves out, of transactions in ``committing`` that have some.
    """

    epoch: int
    seq: int = 0
    current_txid: int = INITIAL_TXID
    attempt_ids: Mapping[int, int] = field(factory=dict)
    metadata: Mapping[int, Mapping[str, Json]] = field(factory=dict)
    committing: tuple[CommitIntent, ...] = ()
    states: Mapping[str, int] = field(factory=dict)
    committed_as: int = -1
    cursors: Mapping[str, Cursors] = field(factory=dict)
    success_upto: int = INITIAL_TXID - 1
    fingerprints: Mapping[int, Mapping[str, Fingerprint]] = field(factory=dict)
    failures: Mapping[int, Failure] = field(factory=dict)
    times: Mapping[int, int] = field(factory=dict)
    declared: Mapping[str, Json] | None = None
    accepted: tuple[str, ...] = ()
    resting: Mapping[str, Json] = field(factory=dict)
    gaps: Mapping[str, range] = field(factory=dict)
    bindings: Bindings = Bindings()
    standing: Standing = NOTHING_STANDS
    outcomes: tuple[Outcome, ...] = ()
    parked: ParkedList = NOTHING_PARKED
    bad_rows: Mapping[int, tuple[BadRow, ...]] = field(factory=dict)

    @property
    def closed_number(self) -> int:
        """The number of the last transaction that spouts are never asked for again.

        It is committed, or is being parked.
        """
        is_parking = self.parked.is_parking(self.current_txid)
        return self.bindings.upto(self.current_txid if is_parking else self.current_txid - 1)

    def definition(self, txid: int) -> Mapping[str, Json]:
        """Return the last definition of ``txid``, by spout; nothing if it is empty, or was never attempted."""
        if (entry := self.parked.released_in(txid)) is not None:
            return entry.definition
        number = self.bindings.number(txid)
        return {} if number is None else self.metadata.get(number, {})


@frozen
class EncodedRecord:
    """A record in its stored form: the head, and the texts of all blobs that the head names, by name."""

    head: str
    blobs: Mapping[str, str]


@frozen
class _Piece:
    """The text of one entry of the head.

    Attributes:
        value: the object of which it is the text.
        blobs: by name, those that it names.
        longest: the length of the longest definition that is in ``text`` itself.
    """

    value: object
    text: str
    blobs: Mapping[str, str] = field(factory=dict)
    longest: int = 0

    def fits(self, inline_max: int) -> bool:
        """Return true if the same definitions would be in blobs."""
        return self.longest <= inline_max and (not self.blobs or inline_max < min(map(_size, self.blobs.values())))


@define
class KeptPieces:
    """The texts of definitions and fingerprints, from one write to the next: only other objects are encoded again."""

    metadata: dict[int, _Piece] = field(factory=dict)
    fingerprints: dict[int, _Piece] = field(factory=dict)


def encode(record: CoordinatorRecord, kept: KeptPieces | None = None) -> EncodedRecord:
    """Return the stored form of ``record``; ``kept`` is changed, and makes the next one of the same topology cheaper.

    Raises:
        MetadataError: some metadata is not JSON.
    """
    kept = KeptPieces() if kept is None else kept
    blobs: dict[str, str] = {}
    kept.metadata = _metadata(record, kept.metadata)
    kept.fingerprints = _fingerprints(record, kept.fingerprints)
    for piece in kept.metadata.values():
        blobs.update(piece.blobs)
    texts = {
        "attempt_ids": _numbers(record.attempt_ids),
        "fingerprints": _together(kept.fingerprints),
        "metadata": _together(kept.metadata),
        "times": _numbers(record.times),
    }
    texts |= {name: canonical_json(value) for name, value in _body(record, blobs).items()}
    text = _object(f'"{name}":{texts[name]}' for name in sorted(texts))
    return EncodedRecord(f'{{"crc":"{content_hash(text)}",{text[1:]}', blobs)


def _object(entries: Iterable[str]) -> str:
    return f"{{{','.join(entries)}}}"


def _together(pieces: Mapping[int, _Piece]) -> str:
    return _object(sorted(piece.text for piece in pieces.values()))  # they begin with the key


def _numbers(numbers: Mapping[int, int]) -> str:
    return _object(sorted(f'"{key}":{number}' for key, number in numbers.items()))


def _body(record: CoordinatorRecord, blobs: dict[str, str]) -> dict[str, Json]:
    """Return the head without the values by transaction."""
    body: dict[str, Json] = {
        "version": RECORD_VERSION,
        "epoch": record.epoch,
        "seq": record.seq,
        "current_txid": record.current_txid,
        "committing": [
            {"txid": pin.attempt.txid, "attempt": pin.attempt.attempt_id, "hash": pin.hash} for pin in record.committing
        ],
        "states": dict(record.states),
        "committed_as": record.committed_as,
        "cursors": {spout: _cursors(spout, positions, blobs) for spout, positions in record.cursors.items()},
        "success_upto": record.success_upto,
        "failures": {str(txid): asdict(failure) for txid, failure in sorted(record.failures.items())},
        "declared": _declared(record, blobs),
        "accepted": list(record.accepted),
        "resting": {
            spout: _blob(f"resting.{spout}", canonical_json(definition), blobs)
            for spout, definition in record.resting.items()
        },
        "gaps": {state: [gap.start, gap.stop] for state, gap in record.gaps.items()},
    }
    body |= _seldom(record, blobs)
    body["blobs"] = list(blobs)
    return body


def _seldom(record: CoordinatorRecord, blobs: dict[str, str]) -> dict[str, Json]:
    """Return the fields that are left out if they have their default."""
    body: dict[str, Json] = {}
    if record.bindings != Bindings():
        body["bindings"] = {
            "empty": list(record.bindings.empty),
            "forgotten": record.bindings.forgotten,
            "released": {str(txid): parked for txid, parked in record.bindings.released.items()},
        }
    if record.bad_rows:
        body["bad_rows"] = {
            str(txid): [
                _blob(f"bad_rows.{txid}.{number}", canonical_json(part), blobs)
                for number, part in enumerate(bad_rows_json(rows))
            ]
            for txid, rows in record.bad_rows.items()
        }
    if record.parked.parking is not None:
        body["parking"] = _blob("parking", canonical_json(record.parked.parking.to_json()), blobs)
    if record.parked.entries:
        body["parked"] = [
            _blob(f"parked.{each.txid}.{each.part}", canonical_json(each.to_json()), blobs)
            for each in record.parked.entries
        ]
    if record.standing != NOTHING_STANDS:
        body["standing"] = record.standing.to_json()
    if record.outcomes:
        body["outcomes"] = _blob("outcomes", canonical_json([each.to_json() for each in record.outcomes]), blobs)
    return body


def _metadata(record: CoordinatorRecord, kept: Mapping[int, _Piece]) -> dict[int, _Piece]:
    inline_max = _inline_max(sum(map(len, record.metadata.values())))

    def piece(number: int, definitions: Mapping[str, Json]) -> _Piece:
        entries, blobs, longest = list[str](), dict[str, str](), 0
        for spout in sorted(definitions):
            text = canonical_json(definitions[spout])
            if (size := _size(text)) <= inline_max:
                longest, entry = max(longest, size), f'{{"value":{text}}}'
            else:
                entry = canonical_json(_blob(f"metadata.{spout}.{number}", text, blobs))
            entries.append(f"{canonical_json(spout)}:{entry}")
        return _Piece(definitions, f'"{number}":{_object(entries)}', blobs, longest)

    return _pieces(record.metadata, kept, inline_max, piece)


def _fingerprints(record: CoordinatorRecord, kept: Mapping[int, _Piece]) -> dict[int, _Piece]:
    def piece(number: int, seen: Mapping[str, Fingerprint]) -> _Piece:
        entries: dict[str, Json] = {spout: [each.rows, each.sum, each.kind] for spout, each in seen.items()}
        return _Piece(seen, f'"{number}":{canonical_json(entries)}')

    return _pieces(record.fingerprints, kept, 0, piece)


def _pieces(
    values: Mapping[int, T], kept: Mapping[int, _Piece], inline_max: int, made: Callable[[int, T], _Piece]
) -> dict[int, _Piece]:
    pieces: dict[int, _Piece] = {}
    for number, value in values.items():
        piece = kept.get(number)
        if piece is None or piece.value is not value or not piece.fits(inline_max):
            piece = made(number, value)
        pieces[number] = piece
    return pieces


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _cursors(spout: str, positions: Cursors, blobs: dict[str, str]) -> Json:
    names = {f"cursors.{spout}.{shard.name}={shard.digest}": shard.text for shard in positions.shards}
    blobs.update(names)
    return list(names)


def _declared(record: CoordinatorRecord, blobs: dict[str, str]) -> Json:
    if record.declared is None:
        return None
    # Not in the head, which every write replaces.
    return _blob("declared", canonical_json(dict(record.declared)), blobs)


def _inline_max(definitions: int) -> int:
    """Return the maximum length of the text of a definition in the head, given their number.

    A power of two, so that it seldom changes while transactions come and go: metadata that moves between head and blob
    is written again.
    """
    share = INLINE_TOTAL_BYTES_MAX // max(1, definitions)
    return min(INLINE_BYTES_MAX, 1 << share.bit_length() - 1)


def _blob(name: str, text: str, blobs: dict[str, str]) -> dict[str, Json]:
    node = f"{name}={content_digest(text)}"
    blobs[node] = text
    return {"blob": node}


def blob_names(head: str, *, where: str) -> list[str]:
    """Return the names of the blobs of the record with this head."""
    return list(_verified(head, where)["blobs"])


def missing_blobs(head: str, blobs: Mapping[str, str], *, where: str) -> list[str]:
    """Return the names of the record's blobs that ``blobs`` lacks, or whose text there doesn't match its name.

    Raises:
        MetadataError: ``head`` is damaged, or has another format version.
    """
    body = _verified(head, where)
    return [name for name in body["blobs"] if name not in blobs or not _is_whole(name, blobs[name])]


def decode(head: str, blobs: Mapping[str, str], *, where: str) -> CoordinatorRecord:
    """Return the record that was stored as ``head`` and ``blobs``; ``where`` is named in errors.

    Raises:
        MetadataError: it is not a record of a readable version, or is damaged. Unreadable data never means that the
            topology starts from the beginning.
    """
    for name in missing_blobs(head, blobs, where=where):
        raise _unreadable(where, f"its part {name!r} is {'damaged' if name in blobs else 'missing'}")
    body = _verified(head, where)
    return _shaped(where, lambda: _from_body(body, blobs))


def _is_whole(name: str, text: str) -> bool:
    return content_digest(text) == name.rpartition("=")[2]


def _from_body(body: dict[str, Any], blobs: Mapping[str, str]) -> CoordinatorRecord:
    def definition(entry: dict[str, Any]) -> Any:
        return json.loads(blobs[entry["blob"]]) if "blob" in entry else entry["value"]

    def positions(names: list[str]) -> Cursors:
        return Cursors(tuple(CursorShard.parse(_shard_name(name), blobs[name]) for name in names))

    return CoordinatorRecord(
        epoch=body["epoch"],
        seq=body["seq"],
        current_txid=body["current_txid"],
        attempt_ids={int(txid): attempt_id for txid, attempt_id in body["attempt_ids"].items()},
        metadata={
            int(txid): {spout: definition(entry) for spout, entry in definitions.items()}
            for txid, definitions in body["metadata"].items()
        },
        committing=tuple(
            CommitIntent(TransactionAttempt(pin["txid"], pin["attempt"]), pin["hash"]) for pin in body["committing"]
        ),
        states=body["states"],
        committed_as=body["committed_as"],
        cursors={spout: positions(names) for spout, names in body["cursors"].items()},
        success_upto=body["success_upto"],
        fingerprints={
            int(txid): {spout: Fingerprint(*each) for spout, each in seen.items()}
            for txid, seen in body["fingerprints"].items()
        },
        failures={int(txid): Failure(**failure) for txid, failure in body["failures"].items()},
        times={int(txid): time for txid, time in body["times"].items()},
        declared=definition(body["declared"]) if body["declared"] else None,
        accepted=tuple(body["accepted"]),
        resting={spout: definition(entry) for spout, entry in body["resting"].items()},
        gaps={state: range(*gap) for state, gap in body["gaps"].items()},
        bindings=_bindings(**body.get("bindings", {})),
        standing=Standing.from_json(body["standing"]) if "standing" in body else NOTHING_STANDS,
        outcomes=tuple(map(Outcome.from_json, definition(body["outcomes"]) if "outcomes" in body else ())),
        parked=_parked(body, definition),
        bad_rows={int(txid): bad_rows_of(map(definition, parts)) for txid, parts in body.get("bad_rows", {}).items()},
    )


def _parked(body: dict[str, Any], definition: Callable[[dict[str, Any]], Any]) -> ParkedList:
    return ParkedList(
        Parking.from_json(definition(body["parking"])) if "parking" in body else None,
        tuple(Parked.from_json(definition(entry)) for entry in body.get("parked", ())),
    )


def _bindings(empty: Sequence[int] = (), forgotten: int = 0, released: Mapping[str, int] | None = None) -> Bindings:
    return Bindings(tuple(empty), forgotten, {int(txid): parked for txid, parked in (released or {}).items()})


def _shard_name(blob: str) -> str:
    return blob.rpartition(".")[2].partition("=")[0]


def _verified(head: str, where: str) -> dict[str, Any]:
    try:
        body = json.loads(head)
    except (ValueError, RecursionError) as error:
        raise _unreadable(where, f"it is not JSON ({error})") from error
    if not isinstance(body, dict) or "version" not in body:
        raise _unreadable(where, "it is not a coordinator record")
    if body["version"] != RECORD_VERSION:
        raise _unreadable(where, other_version(body["version"], RECORD_VERSION))
    crc = body.pop("crc", None)
    if crc != content_hash(canonical_json(body)):
        raise _unreadable(where, "its checksum does not match its content")
    blobs = body.get("blobs")
    if not isinstance(blobs, list) or not all(isinstance(name, str) for name in blobs):
        raise _unreadable(where, "it does not name its blobs")
    return body


def _shaped(where: str, build: Callable[[], CoordinatorRecord]) -> CoordinatorRecord:
    try:
        return build()
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise _unreadable(where, f"it lacks or misnames a part ({error!r})") from error


def _unreadable(where: str, why: str) -> MetadataError:
    return MetadataError(
        f"the record at {where} cannot be read: {why}. The topology stops instead of starting "
        f"from the beginning. To fix this: restore the record from a backup, or `trident reset` the topology"
    )
