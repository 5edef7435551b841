"""How much is measured: everything that makes a run longer or shorter, in one value."""

from __future__ import annotations

from attrs import frozen

LINE_WORDS = 7
WORDS = 5_000


@frozen(kw_only=True)
class Sizes:
    """The sizes of one run.

    Attributes:
        rounds: how often each competitor has its turn, besides the first time, which doesn't count.
        warm_up: batches of each turn before its clock starts.
        files: batches of each turn that are timed, in `large`.
        lines: lines of each file of text, and rows of each file of updates.
        keys: different keys in the files of updates.
        pending: values of ``max_spout_pending`` in `large`, besides the default.
        middle: also measure `large` with files of a tenth of the lines.
        extras: also measure the updates and the pass-through into files.
        small_batches: batches of each turn in `small`.
        small_many: at most so many times as many where several transactions are pending, which would be over too soon.
        small_sentences: sentences of each of them.
        small_pending: values of ``max_spout_pending`` in `small`.
        memory_rows: rows of one batch whose memory is looked at.
        memory_keys: keys in the state while memory is looked at.
        growth_rows: rows of a batch.
        growth_keys: keys in the state.
        growth_batch: rows of the batches that meet those keys.
        growth_partitions: partitions of the source.
        growth_pending: values of ``max_spout_pending``.
        growth_topologies: topologies in one driver.
        growth_history: committed transactions before a restart.
        growth_repeats: timed transactions of each point.
        rows: rows of `benchmarks.rows`.
        window_rows: rows of a batch in `windows`; 0: that part is left out.
        window_keys: keys of these rows.
        nexmark_rows: events of a batch in `nexmark`; 0: that part is left out.
        file_rows: rows of a file in `files`; 0: that part is left out.
        placement_rows: rows of a batch in `placement`; 0: that part is left out.
        sink_rows: rows of a batch in `sinks`.
        sink_batches: such batches of each turn.
        sink_few: batches of ten rows of each turn.
        kafka_records: records of a turn that reads them only, in `kafka`; 0: that part is left out.
        kafka_lines: lines of a batch there.
        kafka_batches: such batches of each turn, besides the one before its clock starts.
        kafka_rate: records a second while latency is measured.
        kafka_timed: of how many records it is, after as many to warm up.
        trickle_rate: rows a second in `trickle`.
        trickle_rows: of how many rows it is, after as many to warm up; 0: that part is left out.
        connection_seconds: how long connections are held, in `connections`.
        connection_silent: clients that connect and send nothing.
        connection_slow: clients that send a byte of a header each half second.
        listing_objects: how many objects are listed in `listing`.
        takeover_kills: leaders that are killed, with and without resident tasks, in `takeover`.
        takeover_standby_seconds: how long a standby waits before that.
        storm: pairs of sentences in a batch and pending transactions, for Storm.
        storm_seconds: how long each pair is measured.
    """

    rounds: int
    warm_up: int
    files: int
    lines: int
    keys: int
    pending: tuple[int, ...]
    middle: bool
    extras: bool
    small_batches: int
    small_many: int
    small_sentences: int
    small_pending: tuple[int, ...]
    memory_rows: tuple[int, ...]
    memory_keys: tuple[int, ...]
    growth_rows: tuple[int, ...]
    growth_keys: tuple[int, ...]
    growth_batch: int
    growth_partitions: tuple[int, ...]
    growth_pending: tuple[int, ...]
    growth_topologies: tuple[int, ...]
    growth_history: tuple[int, ...]
    growth_repeats: int
    rows: int
    window_rows: int
    window_keys: int
    nexmark_rows: int
    file_rows: int
    placement_rows: int
    sink_rows: int
    sink_batches: int
    sink_few: int
    kafka_records: int
    kafka_lines: int
    kafka_batches: int
    kafka_rate: int
    kafka_timed: int
    trickle_rate: int
    trickle_rows: int
    connection_seconds: int
    connection_silent: int
    connection_slow: int
    listing_objects: tuple[int, ...]
    takeover_kills: int
    takeover_standby_seconds: float
    storm: tuple[tuple[int, int], ...]
    storm_seconds: int


FULL = Sizes(
    rounds=3,
    warm_up=3,
    files=12,
    lines=100_000,
    keys=50_000,
    pending=(1, 8),
    middle=True,
    extras=True,
    small_batches=40,
    small_many=16,
    small_sentences=10,
    small_pending=(1, 4, 16, 64, 256),
    memory_rows=(10_000, 100_000, 1_000_000, 4_000_000),
    memory_keys=(1_000, 10_000, 100_000, 1_000_000),
    growth_rows=(10, 100, 1_000, 10_000, 100_000, 1_000_000),
    growth_keys=(1_000, 10_000, 100_000, 1_000_000, 10_000_000),
    growth_batch=1_000,
    growth_partitions=(1, 10, 30, 100, 300, 1_000),
    growth_pending=(1, 2, 4, 8, 16, 32, 64),
    growth_topologies=(1, 2, 5, 10, 20),
    growth_history=(10, 100, 1_000, 5_000),
    growth_repeats=9,
    rows=300_000,
    window_rows=100_000,
    window_keys=1_000,
    nexmark_rows=100_000,
    file_rows=300_000,
    placement_rows=100_000,
    sink_rows=1_000_000,
    sink_batches=3,
    sink_few=30,
    kafka_records=1_000_000,
    kafka_lines=100_000,
    kafka_batches=4,
    kafka_rate=100,
    kafka_timed=1_000,
    trickle_rate=200,
    trickle_rows=1_000,
    connection_seconds=300,
    connection_silent=2000,
    connection_slow=500,
    listing_objects=(100_000, 1_000_000),
    takeover_kills=5,
    takeover_standby_seconds=10.0,
    storm=((1, 1), (1, 10), (10, 1), (10, 10), (10_000, 1), (10_000, 10)),
    storm_seconds=10,
)
"""All that `docs/explanation/performance.md` shows, in about forty minutes."""

QUICK = Sizes(
    rounds=3,
    warm_up=1,
    files=6,
    lines=100_000,
    keys=50_000,
    pending=(),
    middle=False,
    extras=False,
    small_batches=30,
    small_many=32,
    small_sentences=10,
    small_pending=(1, 64, 256),
    memory_rows=(),
    memory_keys=(),
    growth_rows=(),
    growth_keys=(),
    growth_batch=0,
    growth_partitions=(),
    growth_pending=(),
    growth_topologies=(),
    growth_history=(),
    growth_repeats=0,
    rows=0,
    window_rows=100_000,
    window_keys=1_000,
    nexmark_rows=100_000,
    file_rows=300_000,
    placement_rows=100_000,
    sink_rows=0,
    sink_batches=0,
    sink_few=0,
    kafka_records=0,
    kafka_lines=0,
    kafka_batches=0,
    kafka_rate=0,
    kafka_timed=0,
    trickle_rate=0,
    trickle_rows=0,
    connection_seconds=0,
    connection_silent=0,
    connection_slow=0,
    listing_objects=(),
    takeover_kills=0,
    takeover_standby_seconds=0.0,
    storm=(),
    storm_seconds=0,
)
"""The main ratios; only `large` and `small` run."""

TINY = Sizes(
    rounds=1,
    warm_up=1,
    files=1,
    lines=50,
    keys=10,
    pending=(2,),
    middle=False,
    extras=True,
    small_batches=2,
    small_many=2,
    small_sentences=2,
    small_pending=(1, 2),
    memory_rows=(10, 100),
    memory_keys=(10, 100),
    growth_rows=(10, 100),
    growth_keys=(10, 100),
    growth_batch=10,
    growth_partitions=(1, 2),
    growth_pending=(1, 2),
    growth_topologies=(1, 2),
    growth_history=(1, 3),
    growth_repeats=2,
    rows=100,
    window_rows=50,
    window_keys=10,
    nexmark_rows=50,
    file_rows=50,
    placement_rows=50,
    sink_rows=50,
    sink_batches=1,
    sink_few=2,
    kafka_records=100,
    kafka_lines=50,
    kafka_batches=1,
    kafka_rate=20,
    kafka_timed=10,
    trickle_rate=20,
    trickle_rows=10,
    connection_seconds=3,
    connection_silent=300,
    connection_slow=50,
    listing_objects=(1_000, 3_000),
    takeover_kills=1,
    takeover_standby_seconds=0.0,
    storm=(),
    storm_seconds=0,
)
"""Shows that everything runs; the numbers mean nothing."""

BY_NAME = {"full": FULL, "quick": QUICK, "tiny": TINY}
