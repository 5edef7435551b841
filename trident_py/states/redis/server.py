"""A Redis server: its connections, its guarantee, the meaning of its errors, and the script that commits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from attrs import frozen
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, ConnectionError, RedisError, ResponseError, TimeoutError
from redis.retry import Retry

from coordinators.values.secret import Secret
from trident_py.errors import StateError, StoreBusyException

TIMEOUT_SECONDS = 30.0
"""The timeout for an answer; a commit of 100 000 keys takes three seconds."""

CONNECT_SECONDS = 5.0

COMMIT = """
-- KEYS: header, values, those before them, four that are staged: values, those before them, and the times of both;
-- values set aside, their number, the times of values, those before them.
-- ARGV: the header that is expected, the new one, what to do with the values, how many are staged.
local found = redis.call('GET', KEYS[1]) or ''
if found ~= ARGV[1] then return found end
if redis.call('HLEN', KEYS[4]) ~= tonumber(ARGV[4]) then return redis.error_reply('what was staged is gone') end
-- The first write: a server without memory for it refuses it, and with it the script, of which nothing is done then.
redis.call('SET', KEYS[1], ARGV[2])
if ARGV[3] == 'keep' then return false end
if ARGV[3] == 'set aside' then
    if redis.call('EXISTS', KEYS[2]) == 1 then redis.call('RENAME', KEYS[2], KEYS[8]) end
    redis.call('DEL', KEYS[3], KEYS[9], KEYS[10], KEYS[11])
    return false
end
local staged = redis.call('HGETALL', KEYS[4])
local put, gone = {}, {}
for i = 1, #staged, 2 do
    if staged[i + 1] == '' then gone[#gone + 1] = staged[i]
    else put[#put + 1] = staged[i]; put[#put + 1] = staged[i + 1] end
end
for i = 1, #put, 2000 do redis.call('HSET', KEYS[2], unpack(put, i, math.min(i + 1999, #put))) end
for i = 1, #gone, 2000 do redis.call('HDEL', KEYS[2], unpack(gone, i, math.min(i + 1999, #gone))) end
local times = redis.call('HGETALL', KEYS[6])
local added, dropped = {}, {}
for i = 1, #times, 2 do
    if times[i + 1] == '' then dropped[#dropped + 1] = times[i]
    else added[#added + 1] = times[i + 1]; added[#added + 1] = times[i] end
end
for i = 1, #added, 2000 do redis.call('ZADD', KEYS[10], unpack(added, i, math.min(i + 1999, #added))) end
for i = 1, #dropped, 2000 do redis.call('ZREM', KEYS[10], unpack(dropped, i, math.min(i + 1999, #dropped))) end
redis.call('DEL', KEYS[3], KEYS[4], KEYS[6], KEYS[11])
if redis.call('EXISTS', KEYS[5]) == 1 then redis.call('RENAME', KEYS[5], KEYS[3]) end
if redis.call('EXISTS', KEYS[7]) == 1 then redis.call('RENAME', KEYS[7], KEYS[11]) end
redis.call('SET', KEYS[9], redis.call('HLEN', KEYS[2]))
return false
"""
"""The script of a commit: if the stored header is the expected one, it writes the new header and all changes. Otherwise
it changes nothing and returns the stored header.

Its third argument says what to do with the values: ``keep`` them, ``set aside`` all, or ``change`` the staged ones.
"""

_EVICTS = "it may evict values (maxmemory-policy {}): set maxmemory-policy noeviction"
_LASTING = "exactly-once"
_UNSYNCED = (
    "exactly-once while its server keeps running: without appendonly yes and appendfsync always a crash of it may lose "
    "confirmed commits, and the topology stops by name then"
)
_UNKNOWN = (
    "exactly-once where its server has appendonly yes and appendfsync always, which it doesn't tell just now; else a "
    "crash of it may lose confirmed commits, and the topology stops by name then"
)


@frozen
class Server:
    """One server and database.

    Attributes:
        url: the address of the server.
    """

    url: Secret

    def __attrs_post_init__(self) -> None:
        try:
            self.client().close()
        except ValueError as error:
            raise StateError(f"a Redis URL is redis://[user:password@]host:port/db, not this: {error}") from error

    def client(self, timeout: float = TIMEOUT_SECONDS, *, decode_responses: bool = True) -> Redis:
        """Make a client; it connects at its first use, and never repeats a command by itself.

        Args:
            timeout: the limit for an answer, in seconds.
            decode_responses: whether it returns text; otherwise bytes.
        """
        return Redis.from_url(
            self.url.reveal(),
            decode_responses=decode_responses,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=timeout,
            socket_connect_timeout=CONNECT_SECONDS,
            client_name="trident",
        )

    @property
    def guarantee(self) -> str:
        """The guarantee for data on this server, by its current settings."""
        try:
            with closing(self.client(CONNECT_SECONDS)) as client:
                found: dict[Any, Any] = client.config_get("append*")
        except RedisError:  # it is unavailable, or refuses the command
            return _UNKNOWN
        is_lasting = found.get("appendonly") == "yes" and found.get("appendfsync") == "always"
        return _LASTING if is_lasting else _UNSYNCED

    def check(self, where: str) -> None:
        """Check that the server answers and can hold a state.

        Raises:
            StateError: it can't hold a state, or refuses the user.
            StoreBusyException: it is unavailable, perhaps for a moment.
        """
        with explained(where), closing(self.client(CONNECT_SECONDS)) as client:
            told: dict[str, Any] = client.info()
        policy = told.get("maxmemory_policy", "noeviction")
        if policy != "noeviction":
            raise StateError(f"{where}: {_EVICTS.format(policy)}")
        if told.get("role") != "master":
            raise StateError(f"{where}: the server is a replica; to fix this: name the master")
        if told.get("cluster_enabled"):
            raise StateError(
                f"{where}: the server is part of a cluster, which isn't supported; to fix this: name a single server"
            )


@contextmanager
def explained(where: str) -> Iterator[None]:
    """Convert exceptions of redis-py into errors that name ``where``, the cause and the fix.

    Raises:
        StoreBusyException: the server is unavailable or slow. Whether it ran the command is unknown; the attempt may be
            replayed.
        StateError: any other error.
    """
    try:
        yield
    except AuthenticationError as error:
        raise StateError(
            f"{where}: the server refuses the user: {error}; to fix this: check user and password"
        ) from error
    except (ConnectionError, TimeoutError) as error:
        raise StoreBusyException(f"{where}: the server doesn't answer: {error}") from error
    except ResponseError as error:
        raise StateError(f"{where}: {error}; nothing was committed") from error
    except RedisError as error:
        raise StateError(f"{where}: {type(error).__name__}: {error}") from error
