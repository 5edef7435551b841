"""The stored data of a topology of Storm: which transactions its spouts have defined, and how far it has committed.

Below the node ``<transactional.zookeeper.root>/<txId>`` of each spout:

- ``coordinator/currtx``: the lowest transaction that is not committed. It is missing before the first commit.
- ``coordinator/currattempts``: the last attempt ids by txid, also of some that are committed.
- ``coordinator/meta/<txid>``: the definition of a batch by the spout's coordinator.
- ``user/<partition>/<txid>``: what the batch has of a partition, for partitioned spouts.

All values are JSON. Storm takes one that it can't read for missing, and so starts over; here it is an error. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from attrs import field, frozen

from coordinators.values.attempt import INITIAL_TXID
from coordinators.values.canonical import Json, canonical_json, content_digest
from coordinators.values.errors import ConfigError, MetadataError, TopologyError
from trident_py.storm.thrift import StormBase, StormStatus

T = TypeVar("T")

_TXID = re.compile(r"\d+", re.ASCII)


@frozen(kw_only=True)
class StormSpout:
    """The stored data of one spout.

    Attributes:
        tx_id: its id in Storm, under which all of this is stored.
        current: ``currtx``; None: the node is missing.
        attempts: the last attempt ids by txid.
        metadata: the coordinator's definitions by txid.
        partitions: by the partition's id, its metadata by txid.
    """

    tx_id: str
    current: int | None = None
    attempts: Mapping[int, int] = field(factory=dict)
    metadata: Mapping[int, Json] = field(factory=dict)
    partitions: Mapping[str, Mapping[int, Json]] = field(factory=dict)

    @classmethod
    def of(cls, tx_id: str, nodes: Mapping[str, bytes]) -> StormSpout:
        """Return the spout with these nodes, by their paths below the node of the spout.

        Raises:
            MetadataError: a node has something else than Storm writes there.
        """
        metadata: dict[int, Json] = {}
        partitions: dict[str, dict[int, Json]] = {}
        for path, data in nodes.items():
            match path.split("/"):
                case ["coordinator", "meta", txid]:
                    metadata[_txid(tx_id, path, txid)] = _parsed(tx_id, path, data, lambda value: value)
                case ["user", partition]:
                    partitions.setdefault(partition, {})
                case ["user", partition, txid]:
                    number = _txid(tx_id, path, txid)
                    partitions.setdefault(partition, {})[number] = _parsed(tx_id, path, data, lambda value: value)
                case ["user", _, _, *_]:
                    raise _unreadable(tx_id, path, "the id of a partition contains a slash, which can't be imported")
        current, attempts = (nodes.get(f"coordinator/{name}") for name in ("currtx", "currattempts"))
        return cls(
            tx_id=tx_id,
            current=None if current is None else _parsed(tx_id, "coordinator/currtx", current, _number),
            attempts={} if attempts is None else _parsed(tx_id, "coordinator/currattempts", attempts, _attempts),
            metadata=metadata,
            partitions=partitions,
        )

    @property
    def is_announced(self) -> bool:
        """Whether Storm has announced the success of ``current``, and was killed before it stored the next one.

        The spout's coordinator then deletes the definitions before ``current``; until then, it keeps the one before.
        """
        if self.current is None or self.current == INITIAL_TXID:
            return False
        return self.current in self.metadata and min(self.metadata) == self.current


@frozen
class StormSnapshot:
    """The stored data of a topology of Storm, as it was read at one moment.

    Attributes:
        name: the name of the topology in Storm.
        is_killed: whether Storm knows no topology of this name any more; otherwise it is inactive.
        spouts: by ``tx_id``.
    """

    name: str
    is_killed: bool
    spouts: Mapping[str, StormSpout]

    @property
    def current(self) -> int:
        """The lowest transaction that is not committed.

        Raises:
            TopologyError: the spouts don't belong to one group, so they have different transactions.
        """
        known = {each.tx_id: each.current or INITIAL_TXID for each in self.spouts.values()}
        current = max(known.values())
        behind = {tx_id: txid for tx_id, txid in known.items() if txid < current - 1}
        if behind:
            raise TopologyError(
                f"Storm's topology {self.name!r}: spout {min(behind)!r} is at transaction {behind[min(behind)]}, and "
                f"another one at {current}, so they are not joined or merged, and have different transactions. To fix "
                f"this: import each of them into a topology of its own"
            )
        is_announced = any(each.current == current and each.is_announced for each in self.spouts.values())
        return current + 1 if is_announced else current

    @property
    def attempts(self) -> dict[int, int]:
        """The last attempt id of each transaction that is not committed; the highest one of all spouts."""
        found: dict[int, int] = {}
        for spout in self.spouts.values():
            for txid, attempt_id in spout.attempts.items():
                if txid >= self.current:
                    found[txid] = max(attempt_id, found.get(txid, 0))
        return found

    @property
    def digest(self) -> str:
        """A text that changes with every stored value of the spouts."""
        stored: list[Json] = [
            [
                each.tx_id,
                each.current,
                _by_text(each.attempts),
                _by_text(each.metadata),
                {partition: _by_text(values) for partition, values in each.partitions.items()},
            ]
            for _, each in sorted(self.spouts.items())
        ]
        return content_digest(canonical_json(stored))


def ensure_stopped(
    name: str, topologies: Mapping[str, StormBase], assignments: Mapping[str, object], heartbeats: Mapping[str, object]
) -> bool:
    """Check that Storm's topology ``name`` can't begin a batch; return whether it is killed. Otherwise it is inactive.

    Args:
        name: its name in Storm.
        topologies: the topologies that Storm has, by id.
        assignments: the ids of topologies with workers.
        heartbeats: the ids of topologies with heartbeats of workers.

    Raises:
        ConfigError: it may begin batches.
    """
    running = {id: base.status for id, base in topologies.items() if base.name == name}
    for id, status in running.items():
        if status is not StormStatus.INACTIVE:
            raise ConfigError(
                f"Storm's topology {name!r} ({id}) is {status.name}, so it may still commit; nothing was imported. To "
                f"fix this: " + _FIXES[status].format(name=name)
            )
    left = sorted(id for id in {*assignments, *heartbeats} - topologies.keys() if _is_of(name, id))
    if left:
        raise ConfigError(
            f"Storm's topology {name!r} is killed, but workers of {left[0]} may still run: ZooKeeper has their "
            f"assignment or heartbeats; nothing was imported. To fix this: wait until Nimbus has removed them, or end "
            f"the workers"
        )
    return not running


_FIXES = {
    StormStatus.ACTIVE: "`storm deactivate {name}`, or `storm kill {name}`",
    StormStatus.REBALANCING: "wait until it is rebalanced, then `storm deactivate {name}`",
    StormStatus.KILLED: "wait until Nimbus has removed it, as `storm kill -w` says",
}


def _is_of(name: str, id: str) -> bool:
    """Return whether Storm would give this id to a topology ``name``."""
    return re.fullmatch(rf"{re.escape(name)}-\d+-\d+", id) is not None


def _by_text(values: Mapping[int, Any]) -> Json:
    return {str(txid): value for txid, value in values.items()}


def _txid(tx_id: str, path: str, text: str) -> int:
    if not _TXID.fullmatch(text):
        raise _unreadable(tx_id, path, "it is not called like a transaction")
    return int(text)


def _number(value: Any) -> int:
    if type(value) is not int or value < INITIAL_TXID:
        raise ValueError(f"not a transaction: {value!r}")
    return value


def _attempts(value: Any) -> dict[int, int]:
    if not isinstance(value, dict) or not all(type(each) is int for each in value.values()):
        raise ValueError(f"not attempt ids by transaction: {value!r}")
    return {int(txid): attempt_id for txid, attempt_id in value.items()}


def _parsed(tx_id: str, path: str, data: bytes, convert: Callable[[Any], T]) -> T:
    try:
        return convert(json.loads(data))
    except (ValueError, RecursionError) as error:
        raise _unreadable(tx_id, path, f"{error}") from error


def _unreadable(tx_id: str, path: str, why: str) -> MetadataError:
    return MetadataError(
        f"{tx_id}/{path} of Storm can't be read: {why}; nothing was imported, because the position would be lost. To "
        f"fix this: restore the node. Storm itself starts over then"
    )
