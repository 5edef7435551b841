"""Network namespaces for driver processes: each has a cable of its own to the servers, which can be cut."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from attrs import define, field

RUN = os.getpid() % 200 + 20
"""So that two runs on one machine don't meet, and one doesn't stumble over what another has left."""

SUBNET = f"10.77.{RUN}"
SERVERS = f"{SUBNET}.1"
BRIDGE = f"trident{RUN}b"
TABLE = "inet trident_faults"


def missing() -> str | None:
    """What this machine lacks for it; None if nothing."""
    for program in ("ip", "nft"):
        if shutil.which(program) is None:
            return f"no {program}"
    if os.geteuid() != 0:
        return "not root"
    probe = _try("ip", "netns", "add", "trident-probe")
    _try("ip", "netns", "del", "trident-probe")
    return None if probe is None else f"no network namespaces ({probe})"


@define(eq=False)
class Network:
    """A bridge, with the servers at its own address."""

    _count: int = field(default=0, init=False)

    def add(self) -> str:
        """Make a namespace; returns its name."""
        self._count += 1
        name, cable = _namespace(self._count), f"trident{RUN}v{self._count}"
        address = f"{SUBNET}.{self._count + 1}/24"
        _try("ip", "netns", "del", name)
        _ip("netns", "add", name)
        _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", cable, "master", BRIDGE, "up")
        for inside in (
            ("addr", "add", address, "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("link", "set", "lo", "up"),
        ):
            _ip("-n", name, *inside)
        return name

    def remove(self, name: str) -> None:
        """Remove a namespace; its cable goes with it."""
        _try("ip", "netns", "del", name)

    def drop(self, name: str, *ports: int, ways: tuple[str, ...] = ("input", "output")) -> None:
        """Let nothing pass between a namespace and these ports of the servers, in these directions."""
        side = {"input": "sport", "output": "dport"}
        _nft(name, f"add table {TABLE}")
        for way in ways:
            _nft(name, f"add chain {TABLE} {way} {{ type filter hook {way} priority 0; }}")
            numbers = ", ".join(map(str, ports))
            _nft(name, f"add rule {TABLE} {way} tcp {side[way]} {{ {numbers} }} drop")

    def dropped(self, name: str) -> int:
        """How many rules drop something."""
        return _nft(name, "list ruleset inet").count(" drop")

    def heal(self, name: str) -> None:
        """Let everything pass."""
        with suppress(subprocess.CalledProcessError):
            _nft(name, f"delete table {TABLE}")


@contextmanager
def network() -> Iterator[Network]:
    """The bridge, and what was added to it."""
    _try("ip", "link", "del", BRIDGE)
    # With an address of its own: else it takes one of its cables, and everybody looks for the servers when that goes.
    _ip("link", "add", BRIDGE, "address", f"02:77:00:00:{RUN:02x}:01", "type", "bridge")
    _ip("addr", "add", f"{SERVERS}/24", "dev", BRIDGE)
    _ip("link", "set", BRIDGE, "up")
    made = Network()
    try:
        yield made
    finally:
        for number in range(1, made._count + 1):
            made.remove(_namespace(number))
        _try("ip", "link", "del", BRIDGE)


def _namespace(number: int) -> str:
    return f"trident{RUN}n{number}"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=10)


def _nft(name: str, rule: str) -> str:
    command = ["ip", "netns", "exec", name, "nft", *rule.split(" ", 2)[:2], rule.split(" ", 2)[2]]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=10).stdout


def _try(*command: str) -> str | None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=10)
    return None if done.returncode == 0 else done.stderr.strip()
