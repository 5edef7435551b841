"""The stored values of Storm's ``RedisMapState``, read from its server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from typing import Any

from redis import Redis

from trident_py.errors import StateError
from trident_py.states.redis.server import Server, explained

CHUNK_KEYS = 1_000


def stored_texts(server: Server, *, hash: str = "", strings: str = "") -> dict[str, str]:
    """Return the stored texts of a state by the texts of their keys.

    Args:
        server: the server that Storm's topology has used.
        hash: the name of the hash that has all values.
        strings: for values in separate strings: the prefix of their names, with ``*`` at the end; or one name.

    Raises:
        StateError: the server is a replica or part of a cluster, a text is not UTF-8, or the hash is something else.
        StoreBusyException: the server doesn't answer.
    """
    place = f"hash {hash!r}" if hash else f"strings {strings!r}"
    where = f"{place} of Storm's RedisMapState"
    with explained(where), closing(server.client(decode_responses=False)) as client:
        _check(client, where)
        found = client.hscan_iter(hash, count=CHUNK_KEYS) if hash else _strings(client, strings)
        try:
            return {key.decode(): text.decode() for key, text in found}
        except UnicodeDecodeError as error:
            raise StateError(f"{where}: a key or value is not UTF-8: {error}") from error


def _check(client: Redis, where: str) -> None:
    told: Any = client.info()
    if told.get("role") != "master":
        raise StateError(f"{where}: the server is a replica, which may lack values; to fix this: name the master")
    if told.get("cluster_enabled"):
        raise StateError(
            f"{where}: the server is part of a cluster (RedisClusterMapState), which can't be imported; to fix this: "
            f"copy the values to a single server"
        )


def _strings(client: Redis, strings: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield the strings with this prefix, without the prefix; or the one that has this name."""
    prefix, is_prefix = strings.removesuffix("*").encode(), strings.endswith("*")
    pattern = re.sub(rb"([*?\[\]\\])", rb"\\\1", prefix) + b"*"
    names: Any = client.scan_iter(pattern, count=CHUNK_KEYS, _type="string") if is_prefix else iter([prefix])
    while some := list(islice(names, CHUNK_KEYS)):
        texts: Any = client.mget(some)
        for name, text in zip(some, texts, strict=True):
            if text is not None:
                yield (name.removeprefix(prefix) if is_prefix else name), text
