"""``trident import --from-storm NAME TARGET``: continues where a topology of Storm has stopped."""

from __future__ import annotations

import os
import sys
import time
from argparse import Namespace
from collections.abc import Mapping
from functools import partial

from coordinators.backends.zookeeper.access import ANONYMOUS, ZooKeeperAccess
from coordinators.values.error_text import counted
from coordinators.values.secret import Secret
from trident_py.cli.target import load
from trident_py.cli.terminal import safe_lines
from trident_py.cli.usage import UsageError, config_of
from trident_py.coordination import coordination_of
from trident_py.errors import ConfigError
from trident_py.interfaces.config import TridentConfig
from trident_py.storm.importing import EMPTY, Imported, Wanted, import_topology
from trident_py.storm.reading import StormZooKeeper
from trident_py.storm.states import StormKind, StormState

REDIS, LOGIN = "TRIDENT_STORM_REDIS", "TRIDENT_STORM_ZOOKEEPER_AUTH"
"""Names of environment variables: every user of the machine can read command-line options."""


def run(arguments: Namespace) -> int:
    """Import the topology, and print what was taken."""
    config = config_of(arguments)
    wanted = _wanted(arguments, config)
    topology = load(arguments.target).topology
    with coordination_of(config) as coordination:
        done = import_topology(topology._graph, config, coordination, wanted)  # noqa: SLF001 - as in cli/changes.py
    print(safe_lines(_told(topology.name, arguments.from_storm, done)))
    return 0


def _wanted(arguments: Namespace, config: TridentConfig) -> Wanted:
    zookeeper = StormZooKeeper(
        hosts=_hosts(arguments, config),
        root=arguments.storm_root,
        transactional_root=arguments.transactional_root,
        access=_access(arguments, config),
    )
    return Wanted(
        name=arguments.from_storm,
        read=partial(zookeeper.read, arguments.from_storm),
        states=_states(arguments.state or []),
        read_state=partial(_texts, arguments),
        settle=arguments.settle,
        wait=_wait,
    )


def _wait(seconds: float) -> None:
    print(f"the topology is inactive: waiting {seconds:g} s for its last transactions", file=sys.stderr)
    time.sleep(seconds)


def _hosts(arguments: Namespace, config: TridentConfig) -> str:
    hosts = arguments.storm_zookeeper or config.zookeeper
    if hosts is None:
        raise UsageError("name the ZooKeeper of Storm: --storm-zookeeper HOSTS, or --zookeeper if both are the same")
    return str(hosts)


def _access(arguments: Namespace, config: TridentConfig) -> ZooKeeperAccess:
    login = os.environ.get(LOGIN)
    if login:
        return ZooKeeperAccess(login=Secret(login))
    return ANONYMOUS if arguments.storm_zookeeper else config.zookeeper_access


def _states(given: list[str]) -> Mapping[str, StormState | None]:
    found: dict[str, StormState | None] = {}
    for text in given:
        name, _, said = text.partition("=")
        if name in found:
            raise UsageError(f"--state names {name!r} twice")
        try:
            found[name] = EMPTY if said == "empty" else StormState.parse(said)
        except ValueError as error:
            kinds = ", ".join(kind.value for kind in StormKind)
            raise UsageError(
                f"--state is NAME=empty, NAME=KIND,hash=KEY or NAME=KIND,strings=PREFIX*, with ,tasks=1 if the state "
                f"had one task in Storm; KIND is one of {kinds}; not {text!r}"
            ) from error
    return found


def _texts(arguments: Namespace, state: StormState) -> Mapping[str, str]:
    url = arguments.redis or os.environ.get(REDIS)
    if not url:
        raise UsageError(f"name the Redis server of Storm's states: --redis URL, or the variable {REDIS}")
    try:
        from trident_py.states.redis.server import Server
        from trident_py.states.redis.storm_map import stored_texts
    except ImportError as error:
        raise ConfigError(f"an import of states needs redis ({error}): pip install 'trident-py[redis]'") from error
    return stored_texts(Server(Secret(url)), hash=state.hash, strings=state.strings)


def _told(name: str, storm: str, done: Imported) -> str:
    record, verdict = done.record, done.verdict
    if verdict is None:
        return (
            f"topology {name!r} was imported from Storm's {storm!r} before; it is at transaction {record.current_txid}"
        )
    pending = counted(len(record.attempt_ids), "pending transaction")
    lines = [f"topology {name!r} continues from Storm's {storm!r} with transaction {record.current_txid}, {pending}"]
    for state in done.states:
        keys = counted(len(state.rows), "key")
        lines.append(f"state {state.participant.name!r}: {keys}, as of transaction {verdict.txid}")
    lines += [f"{output!r}: nothing is imported into it" for output in done.others]
    if not verdict.is_recorded:
        lines.append(f"transaction {verdict.txid} is in all states, and Storm had not recorded that; it is skipped")
    return "\n".join([*lines, f"don't activate {storm!r} in Storm any more: both would read the same source"])
