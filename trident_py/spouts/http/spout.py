"""`HttpSpout`: rows that programs send by HTTP, without a broker."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
from pyspark.sql.types import StructType

from coordinators.values.canonical import Json
from trident_py.errors import TopologyError
from trident_py.interfaces.config import TridentConfig, seconds
from trident_py.interfaces.context import TopologyContext
from trident_py.interfaces.ingest import RETRY_SECONDS, IngestAnswer, IngestRequest
from trident_py.interfaces.spouts import ITridentSpout
from trident_py.rows.schema import schema_of, shown
from trident_py.sinks.files.local_path import local_path
from trident_py.spouts.http.bodies import BadBodyError, BodyReader
from trident_py.spouts.spool.batches import (
    SpoolBatch,
    SpoolCoordinator,
    SpoolEmitter,
    ensure_same_spool,
    spool_directory,
)
from trident_py.spouts.spool.files import SpoolDirectory
from trident_py.spouts.spool.records import Received, Record
from trident_py.spouts.spool.spool import (
    OtherContentError,
    Spool,
    SpoolClosedError,
    SpoolFullError,
    SpoolLimits,
)

log = logging.getLogger(__name__)

_STREAM = re.compile(r"[A-Za-z0-9._-]{1,100}")
_KEY = re.compile(r"[!-~]{1,255}")


class HttpSpout(ITridentSpout[SpoolBatch]):
    """Emits rows that programs send to ``POST /ingest/STREAM`` of the topology's server, `TridentConfig.serve`.

    A request is answered with 200 once its rows are on the disk, in files that every later leader reads. So each row
    of an answered request counts once. All rows of a request are in one batch. The files are removed when the batches
    have succeeded.

    Args:
        stream: the name in the path: letters, digits, dots, hyphens and underscores.
        schema: the fields of the rows. Other fields are refused; missing ones are NULL.
        directory: for the files, on a file system that all machines share on which the topology may run. None: in the
            ``state_dir``.
        dedup: for this time, a request with the same ``Idempotency-Key`` gets the same answer, and counts once.
        max_held_bytes: while so many bytes are not processed, requests are refused with 429.
        max_bytes_per_batch: the most bytes of a batch, unless one request has more.

    Raises:
        TopologyError: an argument can't work.
    """

    def __init__(
        self,
        stream: str,
        schema: str | StructType,
        *,
        directory: str | Path | None = None,
        dedup: timedelta | float = timedelta(hours=24),
        max_held_bytes: int = 1 << 30,
        max_bytes_per_batch: int = 8 << 20,
    ) -> None:
        if not isinstance(stream, str) or not _STREAM.fullmatch(stream):
            raise TopologyError(f"a stream is named by letters, digits, '.', '-' and '_', not {shown(stream)}")
        for name, given in (("max_held_bytes", max_held_bytes), ("max_bytes_per_batch", max_bytes_per_batch)):
            if given < 1:
                raise TopologyError(f"{name} is at least 1, not {given}")
        self.output_schema = self._schema = schema_of(schema)
        self.stream = stream
        self._reader = BodyReader(self._schema)
        self._directory = None if directory is None else local_path(directory)
        self._limits = SpoolLimits(held_bytes=max_held_bytes, dedup_seconds=seconds(dedup))
        self._batch_bytes = max_bytes_per_batch
        self._spool: Spool | None = None

    def __repr__(self) -> str:
        return f"HttpSpout({self.stream!r})"

    def details(self) -> Mapping[str, Json]:
        """Return the name of the stream, and the directory if one is given."""
        return {"stream": self.stream, **({"directory": str(self._directory)} if self._directory else {})}

    def get_coordinator(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> SpoolCoordinator:
        if conf.serve is None:
            log.warning(
                "topology %s: spout %r receives nothing, because the topology has no server; to fix this: set serve=, "
                "or run it with --serve",
                *(context.topology, tx_state_id),
            )
        self._spool = Spool(
            where=f"topology {context.topology!r}, spout {tx_state_id!r}",
            files=self._files(conf, context),
            epoch=context.epoch,
            limits=self._limits,
        )
        return SpoolCoordinator(spool=self._spool, lag_name=self.stream, bytes_max=self._batch_bytes)

    def ensure_recoverable(self, cursors: Mapping[str, Json], conf: TridentConfig, context: TopologyContext) -> None:
        """Check that the spool of the leader is here."""
        ensure_same_spool(self._files(conf, context), cursors, context)

    def _files(self, conf: TridentConfig, context: TopologyContext) -> SpoolDirectory:
        return spool_directory(self._directory, f"stream={self.stream}", conf, context.topology)

    def get_emitter(self, tx_state_id: str, conf: TridentConfig, context: TopologyContext) -> SpoolEmitter:
        if self._spool is None:
            raise AssertionError("the coordinator is made first")
        return SpoolEmitter(spool=self._spool, read=rows_of)

    def ingest(self, request: IngestRequest) -> IngestAnswer:
        """Store the rows of a request; return the answer to it. Any thread may call it."""
        spool = self._spool
        if spool is None:
            return _refused(503, "the topology is just starting", retries=True)
        if request.key is not None and not _KEY.fullmatch(request.key):
            return _refused(400, "an Idempotency-Key is 1 to 255 visible ASCII characters")
        try:
            table = self._reader.read(request.content_type, request.body)
            spool.offer(received_of(table, request.key, request.body))
        except LookupError as error:
            return _refused(415, str(error.args[0]))
        except BadBodyError as error:
            return _refused(400, f"nothing was taken: {error}")
        except OtherContentError as error:
            return _refused(409, str(error))
        except SpoolFullError as error:
            return _refused(429, f"the topology is behind: {error}", retries=True)
        except SpoolClosedError as error:
            return _refused(503, str(error), retries=True)
        return IngestAnswer(200, {"stream": self.stream, "rows": table.num_rows})


def received_of(table: pa.Table, key: str | None, body: bytes) -> Received:
    """Return rows as the content of a record."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return Received(
        key=key, digest=sha256(body).hexdigest()[:32], rows=table.num_rows, content=sink.getvalue().to_pybytes()
    )


def rows_of(records: Sequence[Record]) -> Iterator[pa.Table]:
    """Yield the rows of each record."""
    for record in records:
        with pa.ipc.open_stream(record.received.content) as stream:
            yield stream.read_all()


def _refused(status: int, why: str, *, retries: bool = False) -> IngestAnswer:
    return IngestAnswer(status, {"error": why}, RETRY_SECONDS if retries else None)
