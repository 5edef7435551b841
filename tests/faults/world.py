"""Real servers and warm drivers, for one fault after another."""

from __future__ import annotations

import argparse
import random
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import psycopg
from attrs import define, field

from tests.faults.drivers import Driver, wait_until
from tests.faults.network import SERVERS, SUBNET, Network, missing, network
from tests.servers.postgresql import PostgresServer
from tests.servers.zookeeper import Ensemble

SESSION_SECONDS = 4.0
WARM_SECONDS = 180
WARM_LINES = 600  # three batches


@define(eq=False)
class World:
    """Three ZooKeeper servers, a PostgreSQL, and as many drivers as are asked for.

    Attributes:
        network: where the drivers have namespaces of their own; None where the machine has none.
    """

    directory: Path
    ensemble: Ensemble
    postgres: PostgresServer
    network: Network | None
    address: str
    drivers: list[Driver] = field(factory=list)
    idle: list[Driver] = field(factory=list)
    numbers: Iterator[int] = field(factory=lambda: count(1))

    @classmethod
    @contextmanager
    def running(cls, *, keep: bool = False) -> Iterator[World]:
        """Start the servers; in the end everything is stopped, and removed unless it is to be kept."""
        with ended_in_order(), ExitStack() as stack:
            directory = Path(mkdtemp(prefix="trident-faults-"))
            if not keep:
                stack.callback(rmtree, directory, ignore_errors=True)
            directory.chmod(0o711)  # PostgreSQL's user has to get through
            lack = missing()
            net = None if lack else stack.enter_context(network())
            address = SERVERS if net else "127.0.0.1"
            ensemble = Ensemble.of(directory / "zookeeper", bind=address)
            stack.callback(ensemble.stop)
            ensemble.start()
            postgres = postgres_at(address, directory / "postgres")
            stack.callback(end_postgres, postgres)
            ensemble.await_quorum()
            world = cls(directory, ensemble, postgres, net, address)
            stack.callback(world.end_drivers)
            yield world

    def take(self, number: int) -> list[Driver]:
        """So many drivers that are warm and do nothing."""
        self.prepare(number)
        self.idle.sort(key=is_warm, reverse=True)
        for driver in self.idle[:number]:
            self.await_warm(driver)
        taken, self.idle = self.idle[:number], self.idle[number:]
        return taken

    @property
    def warm(self) -> int:
        """How many idle drivers could be taken at once."""
        return sum(driver.is_alive and is_warm(driver) for driver in self.idle)

    def await_warm(self, driver: Driver) -> None:
        """Return when a driver has loaded all it needs."""
        driver.await_event("warm", driver.name, WARM_SECONDS)

    def prepare(self, number: int, master: str | None = None) -> None:
        """Have so many idle drivers, warm ones or such as are getting warm."""
        self.idle = [driver for driver in self.idle if driver.is_alive]
        while len(self.idle) < number:
            self.idle.append(self.new_driver(master))

    def new_driver(
        self, master: str | None = None, environment: Mapping[str, str] | None = None, *, has_network: bool = True
    ) -> Driver:
        """A driver that is getting warm, in a network of its own unless it needs what is in ours."""
        namespace = self.network.add() if self.network and has_network else None
        driver = Driver.start(f"driver{len(self.drivers) + 1}", self.directory, namespace, master, environment or {})
        self.drivers.append(driver)
        words = self.directory / "input" / driver.name
        words.mkdir(parents=True)
        (words / "words.txt").write_text("to be or not to be\n" * WARM_LINES)
        driver.tell(
            "warm",
            topology=driver.name,
            input=str(words / "*.txt"),
            zookeeper=self.ensemble.hosts,
            dsn=self.new_database(driver.name),
            session=10,
        )
        return driver

    @property
    def zookeeper_ports(self) -> list[int]:
        """Where clients find the servers."""
        return [member.client_port for member in self.ensemble.members]

    def give_back(self, driver: Driver) -> None:
        """A driver that runs nothing any more, whether dead or alive.

        One that shares our network is of no use to the next fault, which may cut it.
        """
        if driver.is_alive and (driver.namespace or not self.network):
            self.idle.append(driver)
            return
        if driver.is_alive:
            driver.kill()
        driver.close()
        if self.network and driver.namespace:
            self.network.remove(driver.namespace)

    def end_drivers(self) -> None:
        """Kill all drivers."""
        for driver in self.drivers:
            if driver.is_alive:
                driver.go_on()
                driver.kill()
            driver.close()

    def new_database(self, name: str) -> str:
        """Make a database; returns its DSN, for drivers."""
        with psycopg.connect(self.postgres.dsn(), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return self.dsn(name)

    def dsn(self, name: str) -> str:
        """How drivers address a database."""
        return self.postgres.dsn(name).replace("127.0.0.1", self.address)


@contextmanager
def ended_in_order() -> Iterator[None]:
    """SIGTERM interrupts the block as SIGINT does: what was started in it is stopped."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def is_warm(driver: Driver) -> bool:
    """Whether it has loaded all it needs."""
    return bool(driver.events("warm", driver.name))


def postgres_at(address: str, data: Path, **options: str) -> PostgresServer:
    """A server that answers at ``address``, too."""
    server = PostgresServer(
        data, {"listen_addresses": f"127.0.0.1,{address}" if address != "127.0.0.1" else address, **options}
    )
    server.start()
    if address != "127.0.0.1":
        with (data / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {SUBNET}.0/24 scram-sha-256\n")
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("SELECT pg_reload_conf()")
        # Only some time after it was told does the server read them.
        wait_until("the server lets the bridge in", lambda: _answers(server.dsn().replace("127.0.0.1", address)))
    return server


def end_postgres(server: PostgresServer) -> None:
    """Stop a server, if it runs."""
    if server.is_running:
        server.stop("immediate")


def _answers(dsn: str) -> bool:
    try:
        psycopg.connect(dsn, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


def say(text: str) -> None:
    """A line for whoever watches."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def options(description: str) -> argparse.ArgumentParser:
    """What all programs that harm at random take."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--keep", action="store_true", help="leave logs, journals and data below /tmp/trident-faults-…")
    return parser
