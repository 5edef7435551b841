"""The protocol of `FileSink` on the file system: no Spark, only directories and renames.

There are two directories on the same file system. Readers read the first one:

- ``words/txid=1/``: a committed transaction, which appears by one rename.
- ``words/txid=1/_token``: a hidden file that names the owner.
- ``words/txid=1/part-00000-….parquet``: its rows.

The second one is for staging, with a directory for each topology that has written here:

- ``.words.staging/<uuid>/7/``: the root of epoch 7. Only the leader of epoch 7 makes it, once, in its takeover.
- ``.words.staging/<uuid>/7/5-0/``: attempt 0 of transaction 5, complete, and ready to be renamed.
- ``.words.staging/<uuid>/drafts-7/5-0/``: the files that Spark's tasks write; they make missing directories.
- ``.words.staging/<uuid>/swept-6-…/``: the former ``6/``, to which the leader of epoch 6 knows no path.

The root of an epoch is the fence. A new leader first renames the roots of older epochs. From then on, the renames of
older leaders fail. Only then does it look for the last commit. Tasks that still run can't make such a root again,
because they don't know its path. Only their leader renames the files that they wrote to there.
"""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from attrs import define, field

from trident_py.errors import FencedError, SinkError
from trident_py.interfaces.sinks import CommitToken, SinkTransaction, TopologyKey
from trident_py.sinks.files.layout import HIDDEN, TXID
from trident_py.sinks.files.local_path import make_directory, move, sync, sync_tree
from trident_py.sinks.files.token import FileToken

_COMMITTED = re.compile(rf"{TXID}=([1-9][0-9]*)")


def committed(path: Path) -> dict[int, Path]:
    """Return the directory of each committed transaction in ``path``, by txid, in this order.

    Raises:
        SinkError: ``path`` has another entry, which readers would read as rows.
    """
    found: dict[int, Path] = {}
    for entry in path.iterdir():
        name = _COMMITTED.fullmatch(entry.name)
        if name and entry.is_dir():
            found[int(name[1])] = entry
        elif not entry.name.startswith(HIDDEN):
            raise SinkError(
                f"{str(path)!r} holds {entry.name!r}, which is not a transaction, and readers would read it as rows; "
                f"to fix this: move it away, or give the sink its own directory"
            )
    return dict(sorted(found.items()))


def token_of(directory: Path) -> FileToken:
    """Return the token of a committed transaction.

    Raises:
        SinkError: the token is missing, or can't be read.
    """
    token = FileToken.read(directory)
    if token is None:
        raise SinkError(
            f"{str(directory)!r} was written by another program, because it has no token; to fix this: move it away"
        )
    return token


def check_owner(path: Path, token: FileToken, uuid: str, incarnation: int) -> None:
    """Check that a transaction in ``path`` belongs to this topology.

    Raises:
        SinkError: it doesn't.
    """
    if (token.uuid, token.incarnation) != (uuid, incarnation):
        whose = "this topology before it was reset" if token.uuid == uuid else "another topology"
        raise SinkError(
            f"{str(path)!r} has transactions of {whose}: {token.commit.txid} is of topology {token.uuid}, incarnation "
            f"{token.incarnation}, and ours is {uuid}, incarnation {incarnation}; to fix this: move them away, or "
            f"give the sink another directory"
        )


@define
class TransactionDirectory:
    """A directory in which transactions appear complete, in order, each once.

    Attributes:
        path: the directory for readers.
        last: the token of the last commit, as far as known.
    """

    path: Path
    _staging: Path = field(init=False)
    last: CommitToken | None = field(init=False, default=None)

    def recover(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        """Take over: rename the staging directories of older leaders; return the token of the last commit.

        Raises:
            SinkError: the directory has another owner's transactions, or is on another file system than the staging.
            FencedError: a newer leader has taken over.
        """
        make_directory(self.path)
        self.path = self.path.resolve()  # the directory of a link may be on another file system
        self._staging = self.path.parent / f".{self.path.name}.staging" / topology.uuid
        make_directory(self._staging)
        self._check_one_file_system(epoch)
        self._fence(topology, epoch)
        last = self._last_commit(topology, epoch)
        sync(self.path)  # a leader may have died between its rename and this
        self.last = last
        self._remove_what_is_swept(epoch)
        return last

    def _fence(self, topology: TopologyKey, epoch: int) -> None:
        own = self._staging / str(epoch)
        self._sweep(own)  # of a `recover` that failed
        own.mkdir()
        # Ours is there before we look: of two leaders that take over at once, the older sees the newer's root, or has
        # its own swept.
        roots = {int(each.name): each for each in self._staging.iterdir() if each.name.isdecimal()}
        if (newest := max(roots)) > epoch:
            self._sweep(own)
            raise _fenced(self.path, f"topology {topology.name!r}, epoch {epoch}", f"a leader of epoch {newest}")
        for number, root in roots.items():
            if number < epoch:
                self._sweep(root)
        sync(self._staging)

    def _sweep(self, root: Path) -> None:
        with suppress(FileNotFoundError):  # another leader that takes over did it
            root.rename(self._staging / f"swept-{root.name}-{uuid4().hex}")

    def _remove_what_is_swept(self, epoch: int) -> None:
        older = (each for each in self._staging.glob("drafts-*") if int(each.name.removeprefix("drafts-")) <= epoch)
        for left in (*self._staging.glob("swept-*"), *older):
            _remove(left)

    def _check_one_file_system(self, epoch: int) -> None:
        # A file can't be renamed to a directory, and the reason that is given tells whether a directory could.
        probe = self._drafts(epoch) / "probe"
        make_directory(probe.parent)
        probe.touch()
        try:
            probe.rename(self.path)
        except IsADirectoryError:
            pass
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            raise SinkError(
                f"{str(self.path)!r} is on another file system than the directory it is in, where transactions are "
                f"staged: none could be renamed into it; to fix this: give the sink a directory below it"
            ) from error

    def _last_commit(self, topology: TopologyKey, epoch: int) -> CommitToken | None:
        directory = next(reversed(committed(self.path).values()), None)
        if directory is None:
            return None
        token = token_of(directory)
        check_owner(self.path, token, topology.uuid, topology.incarnation)
        if token.commit.epoch > epoch:
            where = f"topology {topology.name!r}, epoch {epoch}"
            raise _fenced(self.path, where, f"a leader of epoch {token.commit.epoch}")
        return token.commit

    def draft(self, tx: SinkTransaction) -> Path:
        """Return the directory in which tasks write the rows of an attempt; they make it."""
        return self._drafts(tx.epoch) / _name(tx)

    def stage(self, tx: SinkTransaction, files: Sequence[Path], token: FileToken) -> Path:
        """Make a durable directory of these files of the draft and a token; return its path.

        Raises:
            FencedError: a newer leader has taken over.
        """
        draft, whole, staged = self.draft(tx), self._whole(tx), self._staged(tx)
        try:
            move(files, draft, whole)
            token.write(whole)
            sync_tree(whole)
            whole.rename(staged)
        except FileNotFoundError as error:
            raise _fenced(self.path, f"attempt {tx.attempt}, epoch {tx.epoch}") from error
        _remove(draft)  # Spark's _SUCCESS and checksums
        return staged

    def commit(self, tx: SinkTransaction, staged: Path) -> None:
        """Make a staged attempt visible, unless an attempt of its transaction already is.

        Raises:
            FencedError: a newer leader has taken over.
            SinkError: another writer has written this transaction.
        """
        if self.last is None or tx.txid > self.last.txid:
            self.last = self._publish(tx, staged)
            sync(self.path)
        tx.ensure_parkable(self.last)
        _remove(staged)

    def here(self, txid: int) -> CommitToken | None:
        """Return the token of the last commit, after a look for ``txid``: the answer to its commit may be lost."""
        target = self.path / f"{TXID}={txid}"
        return token_of(target).commit if target.exists() else self.last

    def _publish(self, tx: SinkTransaction, staged: Path) -> CommitToken:
        """Rename the directory; return the token of the attempt that is visible now."""
        target = self.path / f"{TXID}={tx.txid}"
        try:
            staged.rename(target)
        except OSError as error:
            # It is there, of another attempt, or of this one, where a network file system has lost an answer.
            if not target.exists():
                if staged.exists():
                    raise
                raise _fenced(self.path, f"attempt {tx.attempt}, epoch {tx.epoch}") from error
            token = token_of(target)
            check_owner(self.path, token, tx.key.uuid, tx.key.incarnation)
            if token.commit.epoch > tx.epoch:
                newer = f"a leader of epoch {token.commit.epoch}"
                raise _fenced(self.path, f"attempt {tx.attempt}, epoch {tx.epoch}", newer) from error
            return token.commit
        return tx.token

    def abort(self, tx: SinkTransaction) -> None:
        """Remove the staged files of an attempt, if there are any."""
        for left in (self.draft(tx), self._whole(tx), self._staged(tx)):
            _remove(left)

    def _drafts(self, epoch: int) -> Path:
        return self._staging / f"drafts-{epoch}"

    def _whole(self, tx: SinkTransaction) -> Path:
        draft = self.draft(tx)
        return draft.with_name(f"{draft.name}-whole")

    def _staged(self, tx: SinkTransaction) -> Path:
        return self._staging / str(tx.epoch) / _name(tx)


def _name(tx: SinkTransaction) -> str:
    return f"{tx.txid}-{tx.attempt.attempt_id}"


def _remove(directory: Path) -> None:
    # Tasks of a dead attempt may be writing there; what is left of it, the next leader removes.
    shutil.rmtree(directory, ignore_errors=True)


def _fenced(path: Path, who: str, newer: str = "the staged files are gone: a newer leader") -> FencedError:
    return FencedError(f"{who}: {newer} has taken over {str(path)!r}; to fix this: end this leader")
