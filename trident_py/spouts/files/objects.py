"""Files in an object store: listed with their ETags, and read only if these are the same."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Self

import pyarrow as pa
from attrs import define, evolve, field, frozen

from trident_py.errors import ConfigError, FailedException, SpoutError, TopologyError
from trident_py.rows.schema import shown
from trident_py.sinks.files.local_path import OBJECT_SCHEMES
from trident_py.spouts.files.paths import fits, has_magic
from trident_py.spouts.files.places import Place, WholeFile

PAGE_OBJECTS = 1000
"""One request lists so many."""

BUFFER_BYTES = 1024 * 1024
"""One request reads so much, unless more is wanted at once."""

_RETRY = {"max_retries": 2, "retry_timeout": timedelta(seconds=10)}
"""A batch that fails is tried again anyway."""

_CLIENT = frozenset({"allow_http", "allow_invalid_certificates", "connect_timeout", "timeout", "proxy_url"})
_EPOCH, _MICRO = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


@frozen
class Objects(Place):
    """The objects of a pattern.

    Attributes:
        text: the URL with wildcards.
        bucket: the URL of a bucket or container.
        base: the beginning of their names, up to the last slash before the first wildcard.
        parts: the names and patterns below it.
        options: of the store, as deltalake takes them; they may be secret.
    """

    text: str
    bucket: str
    base: str
    parts: tuple[str, ...]
    options: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, url: str, options: Mapping[str, str]) -> Self:
        """Return the objects of a URL with wildcards.

        Raises:
            ConfigError: obstore is not installed.
            TopologyError: it is no such URL, or an option is unknown.
        """
        bucket, key = _parts_of(url)
        if not key or key.endswith("/"):
            raise TopologyError(
                f"{shown(url)} is not a pattern of objects, such as 's3://bucket/logs/*.json'; the schemes are "
                f"{', '.join(OBJECT_SCHEMES)}"
            )
        names = key.split("/")
        names += ["*"] if names[-1] == "**" else []
        literal = next((number for number, name in enumerate(names) if has_magic(name)), len(names) - 1)
        found = cls(url, bucket, "/".join(names[:literal]), tuple(names[literal:]), dict(options))
        found._store()
        return found

    def find(self, after: str = "") -> Iterator[WholeFile]:
        from obstore import list as list_objects

        if after and not after.startswith(f"{self.bucket}/"):
            raise SpoutError(
                f"the last file that was read is {after!r}, which is not in {self.bucket}; to fix this: give the spout "
                f"of another bucket another tx_id"
            )
        offset = after.removeprefix(f"{self.bucket}/") or None
        with _asked(self.bucket):
            pages = list_objects(self._store(), prefix=self.base or None, offset=offset, chunk_size=PAGE_OBJECTS)
            for each in (each for page in pages for each in page if self._has(each["path"])):
                if (url := f"{self.bucket}/{each['path']}") > after:  # Azurite ignores the offset
                    yield _file(url, each)

    def open(self, file: WholeFile) -> pa.NativeFile:
        key = file.path.removeprefix(f"{self.bucket}/")
        return pa.PythonFile(io.BufferedReader(_ObjectBytes(self._store(), key, file), BUFFER_BYTES), "r")

    def check(self, file: WholeFile) -> None:
        """Do nothing: each read of an object checks it."""

    def _has(self, key: str) -> bool:
        below = key.removeprefix(self.base).lstrip("/") if self.base else key
        return fits(below.split("/"), self.parts)

    def _store(self) -> Any:
        return _client(self.bucket, self.options)


@frozen
class ObjectFolder:
    """Files that never change, as objects below a URL.

    Attributes:
        bucket: the URL of a bucket or container.
        base: the beginning of their names, without a slash at the end.
        options: of the store; they may be secret.
    """

    bucket: str
    base: str
    options: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, url: str, options: Mapping[str, str]) -> Self:
        """Return the files below a URL.

        Raises:
            ConfigError: obstore is not installed.
            TopologyError: it is no such URL, or an option is unknown.
        """
        bucket, key = _parts_of(url.rstrip("/"))
        if not key or has_magic(key):
            raise TopologyError(f"{shown(url)} is not a folder of objects, such as 's3://bucket/trident'")
        found = cls(bucket, key, dict(options))
        _client(found.bucket, found.options)
        return found

    def below(self, *names: str) -> Self:
        """Return a folder in this one."""
        return evolve(self, base="/".join((self.base, *names)))

    def __str__(self) -> str:
        return f"{self.bucket}/{self.base}"

    @property
    def place(self) -> str:
        """The URL."""
        return str(self)

    def names(self) -> list[str]:
        """Return the names of all files, sorted."""
        from obstore import list as list_objects

        with _asked(self.place):
            pages = list_objects(self._store(), prefix=self.base, chunk_size=PAGE_OBJECTS)
            return sorted(each["path"].removeprefix(f"{self.base}/") for page in pages for each in page)

    def read(self, name: str) -> bytes:
        from obstore import get

        with _asked(self.place, passed=FileNotFoundError):
            return bytes(get(self._store(), f"{self.base}/{name}").bytes())

    def write_new(self, name: str, data: bytes) -> bool:
        from obstore import put
        from obstore.exceptions import AlreadyExistsError

        with _asked(self.place), suppress(AlreadyExistsError):
            put(self._store(), f"{self.base}/{name}", data, mode="create")
            return True
        return False

    def remove(self, name: str) -> None:
        from obstore import delete

        with _asked(self.place):
            delete(self._store(), f"{self.base}/{name}")

    def _store(self) -> Any:
        return _client(self.bucket, self.options)


def _parts_of(url: str) -> tuple[str, str]:
    """Return the URL of the bucket, and the name in it; the name is empty if ``url`` has none, or another scheme."""
    scheme, _, path = url.partition("://")
    bucket, _, key = path.partition("/")
    return f"{scheme}://{bucket}", key if scheme in OBJECT_SCHEMES and bucket else ""


def _client(bucket: str, options: Mapping[str, str]) -> Any:
    return _store(bucket, tuple(sorted(options.items())))


@lru_cache(maxsize=16)
def _store(bucket: str, options: tuple[tuple[str, str], ...]) -> Any:
    """Return the client of a store, one in each process."""
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ImportError as error:
        raise ConfigError(f"{bucket} needs obstore ({error}): pip install 'trident-py[objects]'") from error
    of_client = {name: value for name, value in options if _client_name(name) in _CLIENT}
    config: Any = {name: value for name, value in options if name not in of_client}
    retry: Any = _RETRY
    client: Any = {_client_name(name): value for name, value in of_client.items()}
    try:
        return from_url(bucket, config=config, client_options=client, retry_config=retry)
    except BaseError as error:
        raise TopologyError(f"{bucket} can't be read with these storage_options: {_first_line(error)}") from error


def _client_name(name: str) -> str:
    lower = name.lower()
    return next((lower.removeprefix(each) for each in ("aws_", "google_", "azure_") if lower.startswith(each)), lower)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _file(url: str, listed: Mapping[str, Any]) -> WholeFile:
    tag = listed["e_tag"]
    if tag is None:
        raise SpoutError(f"the store says no ETag of {url!r}, so a changed object would not be noticed")
    return WholeFile(url, listed["size"], tag, (listed["last_modified"] - _EPOCH) // _MICRO * 1000)


@contextmanager
def _asked(url: str, *, passed: type[OSError] | tuple[()] = ()) -> Iterator[None]:
    """Convert the errors of a store, except those that are ``passed``, into errors that name it.

    Raises:
        FailedException: the store can't be reached; a retry may succeed.
        SpoutError: the object is gone or another one, or may not be read.
    """
    from obstore import exceptions as errors

    try:
        yield
    except passed:
        raise
    except FileNotFoundError as error:
        raise SpoutError(
            f"object {url!r} is gone, and a batch has its rows; to fix this: put it back, or skip the transaction"
        ) from error
    except errors.PreconditionError as error:
        raise SpoutError(
            f"object {url!r} was replaced or removed after a batch was defined with it; to fix this: restore the "
            f"former version, and give changed data a new name"
        ) from error
    except (PermissionError, errors.PermissionDeniedError, errors.UnauthenticatedError) as error:
        raise SpoutError(
            f"{url!r} may not be read: {_first_line(error)}; to fix this: correct storage_options, or the rights"
        ) from error
    except errors.BaseError as error:
        raise FailedException(f"{url!r} can't be read now: {_first_line(error)}") from error


@define(eq=False, slots=False)
class _ObjectBytes(io.RawIOBase):
    """The bytes of an object; each range is another request.

    Attributes:
        key: its name in the bucket.
    """

    store: Any
    key: str
    file: WholeFile
    _at: int = field(default=0, init=False)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.file.size}[whence] + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        from obstore import get

        end = min(self._at + len(buffer), self.file.size)
        if end <= self._at:
            return 0
        with _asked(self.file.path):
            wanted: Any = {"range": (self._at, end), "if_match": self.file.version}
            found = get(self.store, self.key, options=wanted).bytes()
        buffer[: len(found)] = memoryview(found)
        self._at += len(found)
        return len(found)
