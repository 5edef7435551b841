"""A spool: stores records before their senders get an answer. Many threads may send; one defines batches.

Steps of a group of records: append and flush; check that no newer leader is there; remember; answer. Steps of a new
leader: make the fence of its epoch; read all files; make a file whose header says where each older one ends. So a
record is answered only if it was on the disk before the fence of the next leader, which therefore finds it. Data
that an older leader appends later come after the end that the header names, and are never read.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from attrs import define, field, frozen

from trident_py.errors import FencedError, SpoutError
from trident_py.spouts.spool.files import SpoolFiles
from trident_py.spouts.spool.log import FILE, KEYS_SUFFIX, Position, SpoolLog, SpoolRange, file_name
from trident_py.spouts.spool.records import (
    MARK_BYTES,
    Header,
    Received,
    Record,
    encode,
    read_header,
    read_records,
)
from trident_py.spouts.spool.window import DedupWindow, Seen, decode_keys, encode_keys, keys_of

log = logging.getLogger(__name__)

FILE_BYTES = 32 * 2**20
"""The size at which a new file is begun."""

FENCE_SUFFIX = ".fence"
IDENTITY = "identity"
IDENTITY_BYTES = 12


class SpoolClosedError(Exception):
    """This process can't store anything now; a retry may succeed, here or in another process."""


class SpoolFullError(Exception):
    """The topology is behind: what it hasn't processed has reached the limit."""


class OtherContentError(Exception):
    """Something else was received with the same key."""


@define(eq=False)
class _Waiting:
    """A record that waits for its group."""

    received: Received
    is_stored: bool = False
    error: BaseException | None = None


@frozen(kw_only=True)
class SpoolLimits:
    """The limits of a spool.

    Attributes:
        held_bytes: the most bytes of which the batches have not succeeded.
        dedup_seconds: how long keys are remembered.
        file_bytes: the size at which a new file is begun.
    """

    held_bytes: int
    dedup_seconds: float
    file_bytes: int = FILE_BYTES


# large: the two halves, senders and batches, share the log and the lock
@define(eq=False, kw_only=True)
class Spool:
    """The spool of one leadership.

    Attributes:
        where: names topology and spout in errors.
        epoch: of the leadership.
        clock: returns the time of day, in seconds since 1970.
    """

    where: str
    files: SpoolFiles
    epoch: int
    limits: SpoolLimits
    clock: Callable[[], float] = time.time
    _log: SpoolLog = field(factory=SpoolLog, init=False)
    _window: DedupWindow = field(init=False)
    _token: str = field(default="", init=False)
    _file: str = field(default="", init=False)  # the file that is written
    _mark: bytes = field(default=b"", init=False)
    _number: int = field(default=0, init=False)
    _must_roll: bool = field(default=False, init=False)
    _refusal: str = field(default="the topology is just starting", init=False)  # empty: records are accepted
    _has_ended: bool = field(default=False, init=False)
    _waiting: list[_Waiting] = field(factory=list, init=False)
    _keys: dict[str, _Waiting] = field(factory=dict, init=False)
    _key_files: dict[str, float] = field(factory=dict, init=False)  # the time of the last key of each
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _writing: threading.Lock = field(factory=threading.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        self._window = DedupWindow(self.limits.dedup_seconds)

    # --- a leadership -------------------------------------------------------------------------------------------------

    def open(self, token: str | None, position: Position) -> str:
        """Take the spool over from earlier leaders; return its token. If it fails, it may be called again.

        Args:
            token: of the spool that the earlier leader used; None: there was none.
            position: the end of the last batch.

        Raises:
            SpoutError: these files are not the ones of the earlier leader, or are damaged.
            FencedError: a newer leader has taken over.
        """
        with self._writing:
            self._token = self._known_token(token)
            self.files.write_new(f"{self.epoch:010}{FENCE_SUFFIX}", b"")
            self._ensure_leading()
            self._load(position)
            self._roll()
            for name in self.files.names():
                if name.endswith(FENCE_SUFFIX) and name < f"{self.epoch:010}":
                    self.files.remove(name)
        return self._token

    def accept(self) -> None:
        """Accept records from now on, if it is open: every later leader will look for them here."""
        with self._lock:
            if self._file and not self._has_ended:
                self._refusal = ""

    def close(self) -> None:
        """Accept nothing more, and refuse the records that wait."""
        self._end("the topology has stopped here")
        with self._writing:
            self._write_group()
            self.files.close()

    def _end(self, why: str) -> None:
        with self._lock:
            self._has_ended, self._refusal = True, why

    def _known_token(self, token: str | None) -> str:
        if token is None:
            self.files.write_new(IDENTITY, secrets.token_hex(IDENTITY_BYTES).encode())
        return check_identity(self.where, self.files, token)

    def _load(self, position: Position) -> None:
        """Read all files."""
        found, window = SpoolLog(position), DedupWindow(self.limits.dedup_seconds)
        for name, (records, end) in self._records().items():
            found.add(name, records, end)
            window.add(keys_of(records))
        # Keys after records: a leader that ends stores the keys of a file before it removes it.
        kept = self._kept_keys()
        for keys in kept.values():
            window.add(keys)
        if position.file in found.ends and found.ends[position.file] < position.offset:
            raise SpoutError(
                f"{self.where}: spool file {position.file!r} in {self.files.place} ends at byte "
                f"{found.ends[position.file]}, and was read up to {position.offset}: it has lost records; to fix this: "
                f"restore it from a backup"
            )
        with self._lock:
            found.adopt(self._log)
            self._log, self._window = found, window
            self._key_files = {name: max(seen.at for seen in keys.values()) for name, keys in kept.items()}

    def _records(self) -> dict[str, tuple[list[Record], int]]:
        """Return the records of each file, and its end."""
        files, ends = dict[str, bytes](), dict[str, int]()
        for name in self.files.names():
            if FILE.fullmatch(name):
                with suppress(FileNotFoundError):  # a leader that ends has just removed it
                    files[name] = self.files.read(name)
                    ends |= read_header(name, files[name])[0].ends  # the last one that names a file counts
        return {name: _records_in(name, data, ends.get(name)) for name, data in files.items()}

    def _kept_keys(self) -> dict[str, dict[str, Seen]]:
        names = [name for name in self.files.names() if name.endswith(KEYS_SUFFIX)]
        return {name: decode_keys(self.files.read(name)) for name in names}

    def _ensure_leading(self) -> None:
        epochs = (int(name.removesuffix(FENCE_SUFFIX)) for name in self.files.names() if name.endswith(FENCE_SUFFIX))
        if (newest := max(epochs, default=0)) > self.epoch:
            raise FencedError(
                f"{self.where}: a leader of epoch {newest} has taken over the spool in {self.files.place}, and this is "
                f"epoch {self.epoch}; to fix this: end this process, or, if the record of the topology was lost, move "
                f"the spool away"
            )

    # --- senders: any thread ------------------------------------------------------------------------------------------

    def offer(self, *received: Received) -> None:
        """Store records, unless they were received before; return once they are on the disk.

        Raises:
            SpoolClosedError: nothing can be stored now. It is unknown whether it was.
            SpoolFullError: the topology is behind.
            OtherContentError: something else has the same key.
        """
        digests: dict[str | None, str] = {}
        for each in received:
            if each.key is not None and digests.setdefault(each.key, each.digest) != each.digest:
                raise OtherContentError(f"two records have the key {each.key!r}")
        with self._lock:
            if self._refusal:
                raise SpoolClosedError(self._refusal)
            waiting = self._wait([each for each in received if not self._is_known(each)])
        with self._writing:
            if any(not place.is_stored and place.error is None for place in waiting):
                self._write_group()
        for place in waiting:
            if not place.is_stored:
                raise SpoolClosedError(f"it could not be stored: {place.error}") from place.error

    def _is_known(self, received: Received) -> bool:
        """Return whether it was stored before."""
        if received.key is None:
            return False
        seen, waiting = self._window.find(received.key, self.clock()), self._keys.get(received.key)
        known = seen.digest if seen else waiting.received.digest if waiting else received.digest
        if received.digest != known:
            raise OtherContentError(f"something else was received with the key {received.key!r}")
        return seen is not None

    def _wait(self, received: Sequence[Received]) -> list[_Waiting]:
        """Return the places in the next group; the same ones for what is there already."""
        held = self._log.held_bytes + sum(len(each.received.content) for each in self._waiting)
        if received and held and held + sum(len(each.content) for each in received) > self.limits.held_bytes:
            raise SpoolFullError(f"{held} bytes are not processed yet, the limit is {self.limits.held_bytes}")
        places = []
        for each in received:
            known = None if each.key is None else self._keys.get(each.key)
            if known is None:
                known = _Waiting(each)
                self._waiting.append(known)
                if each.key is not None:
                    self._keys[each.key] = known
            places.append(known)
        return places

    def _write_group(self) -> None:
        """Store the records that wait; one thread at a time."""
        with self._lock:
            group, self._waiting = self._waiting, []
            refusal = self._refusal
        if not group:
            return
        try:
            if refusal:
                raise SpoolClosedError(refusal)
            records = self._stored([each.received for each in group])
        except FencedError as error:
            self._end(str(error))
            self._settle(group, error)
        except Exception as error:  # noqa: BLE001 - each sender must learn that its record isn't stored
            log.warning("%s: records are refused: %s", self.where, error)
            self._settle(group, error)
        else:
            with self._lock:
                self._log.add(self._file, records, records[-1].end)
                self._window.add(keys_of(records))
                self._window.expire(self.clock())
            self._settle(group, None)

    def _settle(self, group: Sequence[_Waiting], error: BaseException | None) -> None:
        with self._lock:
            for each in group:
                each.is_stored, each.error = error is None, error
                if each.received.key is not None:
                    self._keys.pop(each.received.key, None)

    def _stored(self, group: Sequence[Received]) -> list[Record]:
        if self._must_roll or self._log.ends[self._file] >= self.limits.file_bytes:
            self._roll()
        begin, now = self._log.ends[self._file], self.clock()
        data = b"".join(encode(each, now, self._mark, begin) for each in group)
        self._must_roll = True  # if this raises, it is unknown what the file has after `begin`
        self.files.append(self._file, data)
        self._ensure_leading()
        self._must_roll = False
        return _placed(data, begin, self._mark)

    def _roll(self) -> None:
        """Begin a file; its header says where the others end."""
        self._must_roll = True
        mark = secrets.token_bytes(MARK_BYTES)
        data = Header(mark=mark, ends=self._log.ends).encode()
        while not self.files.write_new(name := file_name(self.epoch, self._number + 1), data):
            self._number += 1
        self._number += 1
        self._ensure_leading()
        with self._lock:
            self._log.add(name, [], len(data))
            self._file, self._mark, self._must_roll = name, mark, False

    # --- batches: the coordinator's thread ----------------------------------------------------------------------------

    @property
    def unread_rows(self) -> int:
        """The number of rows that no batch has."""
        with self._lock:
            return self._log.unread_rows

    @property
    def is_accepting(self) -> bool:
        """Whether records are accepted."""
        return not self._refusal

    @property
    def has_room(self) -> bool:
        """Whether the topology isn't behind."""
        with self._lock:
            return self._log.held_bytes < self.limits.held_bytes

    @property
    def has_unread(self) -> bool:
        """Whether there are records for a batch."""
        with self._lock:
            return self._log.has_unread

    def take(self, txid: int, bytes_max: int, rows_max: int | None) -> list[SpoolRange]:
        """Define a new batch; see `SpoolLog.take`."""
        with self._lock:
            return self._log.take(txid, bytes_max, rows_max)

    def define(self, txid: int, ranges: Sequence[SpoolRange]) -> None:
        """Record a batch that was defined before."""
        with self._lock:
            self._log.define(txid, ranges)

    def succeed(self, txid: int) -> None:
        """Remove the files that nothing needs after the success of ``txid``; their keys stay for their time."""
        with self._lock:
            self._log.succeed(txid)
            files = {name: self._log.ends[name] for name in self._log.unneeded(self._file)} if self._file else {}
        try:
            self._remove(files)
        except OSError as error:  # the next success tries again
            log.warning("%s: files that nothing needs stay in %s: %s", self.where, self.files.place, error)

    def _remove(self, files: Mapping[str, int]) -> None:
        for name, end in files.items():
            self._keep_keys(name, end)
            self.files.remove(name)
            with self._lock:
                self._log.forget(name)
        for name in [name for name, at in self._key_files.items() if self._window.is_over(at, self.clock())]:
            self.files.remove(name)
            del self._key_files[name]

    def _keep_keys(self, name: str, end: int) -> None:
        try:
            records, _ = _records_in(name, self.files.read(name), end)
        except FileNotFoundError:
            return  # it was removed before
        if keys := keys_of(records):
            self.files.write_new(f"{name}{KEYS_SUFFIX}", encode_keys(keys))
            self._key_files[f"{name}{KEYS_SUFFIX}"] = max(seen.at for seen in keys.values())


def check_identity(where: str, files: SpoolFiles, token: str | None) -> str:
    """Return the token of the spool in ``files``.

    Raises:
        SpoutError: it isn't ``token``, which is of the spool that an earlier leader used.
    """
    try:
        found = files.read(IDENTITY).decode()
    except FileNotFoundError:
        found = ""
    if token is not None and found != token:
        raise SpoutError(
            f"{where}: the earlier leader has stored received rows elsewhere: {files.place} on this machine "
            f"{'has another spool' if found else 'has no spool'}; to fix this: give the spout a directory that all "
            f"machines share on which the topology may run"
        )
    return found


def _records_in(name: str, data: bytes, end: int | None) -> tuple[list[Record], int]:
    """Return the records of a file, and its end."""
    header, begin = read_header(name, data)
    records = read_records(name, data, header.mark, begin, end)
    return records, records[-1].end if records else begin


def _placed(data: bytes, begin: int, mark: bytes) -> list[Record]:
    """Return the records of a group that was written at ``begin``."""
    return [
        Record(begin=begin + each.begin, end=begin + each.end, at=each.at, received=each.received, hash=each.hash)
        for each in read_records("", data, mark, 0, len(data))
    ]
