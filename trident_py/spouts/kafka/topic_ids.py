"""Compares topics with those that a batch was defined for.

Kafka gives each topic an id, and never the same one twice. So if a topic has the id of a batch after the records of the
batch were read, they are the records that the batch was defined for, whatever was deleted and made anew meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping

from attrs import define, field
from confluent_kafka import KafkaException

from trident_py.errors import FailedException, SpoutError
from trident_py.spouts.kafka.cluster import Cluster, Topic, errors_of_spout
from trident_py.spouts.kafka.ranges import OffsetRange

GONE_SECONDS = 10.0
"""How long a topic may be missing until it counts as deleted: a broker that has just started may not know it yet."""


@define
class TopicIds:
    """Compares the topics of one spout.

    Attributes:
        spout: its name, for messages.
        cluster: has the topics.
        clock: tells monotonic seconds.
    """

    spout: str
    cluster: Cluster
    clock: Callable[[], float] = time.monotonic
    _missing: dict[str, float] = field(factory=dict, init=False)  # since when

    def verify(self, ranges: Collection[OffsetRange]) -> None:
        """Ask the cluster whether the topics of a batch are those that it was defined for.

        Raises:
            SpoutError: one is another topic of that name, or is deleted.
            FailedException: one is missing, or the cluster doesn't answer.
        """
        wanted = {(each.topic, each.topic_id) for each in ranges}
        try:
            with errors_of_spout(self.spout):
                found = self.cluster.described({name for name, _ in wanted})
        except KafkaException as error:
            self.cluster.close()  # a client that was cut off may go on asking as if nothing had happened since
            raise FailedException(
                f"spout {self.spout!r}: Kafka doesn't tell whether its topics are those that were read: {error}"
            ) from error
        self.check(wanted, found)

    def check(self, wanted: Iterable[tuple[str, str]], found: Mapping[str, Topic]) -> None:
        """Compare the topics that were read, by name and id, with those that are there.

        Raises:
            SpoutError: one is another topic of that name, or is deleted.
            FailedException: one is missing, perhaps for a moment only.
        """
        for name, topic_id in sorted(set(wanted)):
            if name in found:
                self._missing.pop(name, None)
                self._compare(name, topic_id, found[name].id)
            else:
                self._miss(name)

    def _compare(self, name: str, before: str, now: str) -> None:
        if before != now:
            raise SpoutError(
                f"spout {self.spout!r}: topic {name!r} was deleted and made anew since it was read (its id was "
                f"{before}, and is {now}), so records of the first one can't be read any more; to fix this: "
                f"`trident reset` the topology to read the new topic"
            )

    def _miss(self, name: str) -> None:
        since = self._missing.setdefault(name, self.clock())
        what = f"spout {self.spout!r}: topic {name!r}, which was read before, is not there"
        if self.clock() - since < GONE_SECONDS:
            raise FailedException(f"{what} just now; if it stays away, the topology stops")
        raise SpoutError(
            f"{what} any more: it was deleted, with any records that were not read, or the user that options= names "
            f"may not describe it any more; to fix this: give that user the right to describe the topic; or leave it "
            f"out of topics=, to go on without it; or `trident reset` the topology"
        )
