"""A driver's side and tasks of a topology with resident tasks; the tasks are threads here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from typing import Any

import pyarrow as pa
from attrs import define, field
from pyspark import cloudpickle

from trident_py.engine.resident.server import Handlers, ResidentServer
from trident_py.worker.resident import ResidentTask, ShippedBranch
from trident_py.worker.wire import Frame, packed

SECONDS = 10
SECRET = b"of this driver"

Program = Callable[[Sequence[pa.RecordBatch]], pa.Table]


@define
class Driver:
    """A server, and what it has told."""

    told: SimpleQueue[tuple[Any, ...]] = field(factory=SimpleQueue)
    server: ResidentServer = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.server = ResidentServer(
            host="127.0.0.1",
            secret=SECRET,
            name="resident",
            handlers=Handlers(
                joined=lambda link, task: self.told.put(("joined", link, task)),
                received=lambda link, frame: self.told.put(("received", link, frame)),
                left=lambda link: self.told.put(("left", link)),
                ticked=lambda: None,
            ),
        )

    def next(self) -> tuple[Any, ...]:
        return self.told.get(timeout=SECONDS)

    def asked(self, link: int, branch: int, *txids: int) -> Frame:
        """Return the answer to a request with one row for each transaction."""
        rows = pa.table({"txid": pa.array(txids, pa.int64()), "word": ["a"] * len(txids)})
        self.server.send(link, Frame({"number": 5, "branch": branch, "txids": [*txids]}, packed(rows)))
        what, from_link, frame = self.next()
        assert (what, from_link, frame.head["number"]) == ("received", link, 5)
        return frame  # type: ignore[no-any-return]

    def task(self, programs: Mapping[int, Program], *, keeps_nothing: bool = False) -> ResidentTask:
        """Return a task that has these branches."""
        branches = {
            number: ShippedBranch(program=cloudpickle.dumps(program), keeps_nothing=keeps_nothing)  # type: ignore[no-untyped-call]
            for number, program in programs.items()
        }
        return ResidentTask(address=("127.0.0.1", self.server.port), secret=SECRET, branches=branches)


def begun(task: ResidentTask) -> threading.Thread:
    """Run ``task`` on a thread."""
    thread = threading.Thread(target=lambda: list(task(iter(()))), daemon=True)
    thread.start()
    return thread


def joined(rows: Sequence[pa.RecordBatch]) -> pa.Table:
    """Return the rows; the plainest program."""
    return pa.Table.from_batches(rows)
