"""How many tasks stay, and where they reach this process."""

from __future__ import annotations

from attrs import frozen
from pyspark.sql import SparkSession

from trident_py.errors import ConfigError
from trident_py.interfaces.config import TridentConfig
from trident_py.spark import jobs

LOOPBACK = "127.0.0.1"
ANYWHERE = "0.0.0.0"  # noqa: S104 - executors are elsewhere, and show the secret


@frozen(kw_only=True)
class ResidentSettings:
    """The settings of resident tasks.

    Attributes:
        count: how many there are; None: as many as half of the slots allow, while small batches come.
        host: an address of this machine that executors can reach.
        listens_at: the address at which this process listens.
        seconds: a request that is not answered after this time runs as a Spark job.
    """

    count: int | None
    host: str
    listens_at: str
    seconds: float

    @classmethod
    def of(cls, config: TridentConfig, session: SparkSession) -> ResidentSettings | None:
        """Return the settings from ``config``; None: no tasks stay.

        Raises:
            ConfigError: the tasks would leave no slot for Spark jobs, or could not reach this process.
        """
        count = count_of(config)
        addresses = _addresses(config, session)
        if count == 0 or (count is None and addresses is None):
            return None
        if addresses is None:
            raise ConfigError(
                "resident_tasks: over Spark Connect, executors can reach this process only if driver_host= says where"
            )
        slots = jobs.parallelism(session)
        if count is not None and count >= slots and _is_local(session):
            raise ConfigError(
                f"resident_tasks={count} leaves no slot for Spark jobs, as this session has {slots}; give it a master "
                f"such as local[{count + 1}], or fewer tasks"
            )
        host, listens_at = addresses
        return cls(count=count, host=host, listens_at=listens_at, seconds=config.message_timeout)


def count_of(config: TridentConfig) -> int | None:
    """Return how many tasks ``config`` wants; None: as many as the slots allow."""
    return None if config.resident_tasks == "auto" else int(config.resident_tasks)


def _addresses(config: TridentConfig, session: SparkSession) -> tuple[str, str] | None:
    """Return the address for tasks, and that at which to listen; None: tasks can't reach this process."""
    if _is_local(session):
        return LOOPBACK, LOOPBACK
    if config.driver_host is not None:
        return config.driver_host, ANYWHERE
    if jobs.spark_context(session) is None:
        return None
    host = str(session.conf.get("spark.driver.host"))
    return host, str(session.conf.get("spark.driver.bindAddress", host))


def _is_local(session: SparkSession) -> bool:
    is_classic = jobs.spark_context(session) is not None
    return is_classic and str(session.conf.get("spark.master", "")).partition("[")[0] == "local"
