"""One process that may lead: it stands by, takes over, runs the driver, and may be killed, paused or cut off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, field

from coordinators.backends.zookeeper import leadership
from coordinators.backends.zookeeper.record_store import ZooKeeperRecordStore
from coordinators.batches.spout_coordinator import Ask, TridentSpoutCoordinator
from coordinators.driver.driver import CoordinatorDriver
from coordinators.protocol.messages import Message, NotReady, WishesChanged
from coordinators.record.record import CoordinatorRecord
from coordinators.status.candidate import Candidate
from coordinators.takeover.changes import corrections_of
from coordinators.takeover.takeover import Torn
from coordinators.values.attempt import CommitToken, TransactionAttempt
from coordinators.values.batch_coordinator import BatchCoordinator
from coordinators.values.cursors import Cursors
from coordinators.values.errors import TopologyError, TridentError
from coordinators.values.settings import LeadershipSettings
from coordinators.values.transaction_time import LeaderClock
from tests.simulation.mutants import SplittingRecordStore, recovered, weaken
from tests.simulation.partitions import halves
from tests.simulation.plane import Plane
from tests.simulation.rules import Violation
from tests.simulation.sources import SourceCoordinator
from tests.simulation.stores import StoreKind
from tests.simulation.versions import adopted, corrected
from tests.simulation.wishes import weaken_wishes
from tests.simulation.zookeeper import Session
from trident_py.errors import StoreBusyException
from trident_py.interfaces.sinks import SinkTransaction, TransactionKey
from trident_py.spouts.partition_executor import PartitionTasksEmitter
from trident_py.states.fenced import Fence

if TYPE_CHECKING:
    from tests.simulation.stores import Store
    from tests.simulation.world import World

STANDBY_SECONDS = 0.5
NOTHING_SECONDS = 0.5
RESTART_SECONDS = 1.0
BEHIND_SECONDS = 50.0
"""Each life's clock is so much behind that of the life before, and those of other processes are elsewhere again."""
MESSAGE_TIMEOUT_SECONDS = 4.0
TURN_SECONDS = 0.001


class Killed(BaseException):
    """The process ends here, whatever it was doing."""


class StillLed(Exception):
    """Somebody else leads; a standby looks again later."""


class Waiting(Candidate):
    """A candidate of a world without threads: it doesn't wait, it comes again."""

    def wait(self, seconds: float) -> None:
        """Later."""
        raise StillLed


@define(eq=False)
class Process:
    """A process under a supervisor that starts it again when it ends.

    Attributes:
        life: counts starts; what was under way in an earlier life is gone.
        has_paused: its program has paused the topology by itself, and not resumed it.
        is_paused: SIGSTOP: nothing happens in it, and its session isn't renewed.
        is_cut: no packet comes from or to ZooKeeper.
        leaves_out: the store that the version it runs leaves out; none: "".
        is_next: whether its last takeover was one that the next version may make.
        known: what this life has seen in each store that remembers.
        errors: what ended its lives, by name.
    """

    world: World
    number: int
    life: int = 0
    is_alive: bool = False
    is_paused: bool = False
    has_paused: bool = False
    is_cut: bool = False
    is_busy: bool = False
    session: Session | None = None
    record_store: ZooKeeperRecordStore | None = None
    driver: CoordinatorDriver | None = None
    plane: Plane = field(init=False)
    coordinators: dict[str, TridentSpoutCoordinator] = field(factory=dict)
    emitters: dict[str, PartitionTasksEmitter] = field(factory=dict)
    inbox: list[Message] = field(factory=list)
    leaves_out: str = ""
    is_next: bool = False
    next_edge: int = 1
    turns: int = 0
    known: dict[str, Fence] = field(factory=dict)
    errors: list[str] = field(factory=list)

    @property
    def name(self) -> str:
        """For logs."""
        return f"driver {self.number}"

    @property
    def wall(self) -> float:
        """The time of day, as this life of the process sees it."""
        return self.world.now + 10**6 - BEHIND_SECONDS * self.life + self.number

    @property
    def stores(self) -> dict[str, Store]:
        """Those that the version it runs has."""
        return {name: store for name, store in self.world.stores.items() if name != self.leaves_out}

    @property
    def outputs(self) -> dict[str, Store]:
        """Those that batches go into; into the others go new values."""
        return {name: store for name, store in self.stores.items() if not store.fed_by}

    # --- life and death -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """A new life."""
        self.life += 1
        self.is_alive, self.is_paused, self.is_busy, self.has_paused = True, False, False, False
        self.session = self.record_store = self.driver = None
        self.plane, self.inbox, self.turns, self.known = Plane(self), [], 0, {}
        self.post("lead", 0.01)

    def die(self, why: str) -> None:
        """The end of this life, and after a while the next one. What it had sent to stores and servers is under way."""
        self.world.say(f"{self.name} ends: {why}")
        self.is_alive, self.driver = False, None
        self.world.nemesis("start", RESTART_SECONDS, self.number, self.life)

    def may_crash(self, where: str) -> None:
        """A crash point."""
        if self.is_busy and self.world.chance.happens("crash at a step"):
            raise Killed(where)

    # --- what it knows of its stores ----------------------------------------------------------------------------------

    def saw_commit(self, name: str, group: Sequence[SinkTransaction]) -> None:
        """A store has these transactions; it may have had them before."""
        known = self.known.get(name)
        if known is not None and (known.token is None or known.token < group[-1].token):
            self.known[name] = known.after(group)

    def check_kept(self, name: str) -> None:
        """Refuse to go on with a store that has lost what this life has seen in it.

        Raises:
            StateError: it has.
        """
        if name in self.known and self.world.has("kept commits"):
            self.stores[name].fence.check_kept(self.known[name], name)

    # --- what happens in it -------------------------------------------------------------------------------------------

    def post(self, kind: str, seconds: float, *arguments: Any, lane: str = "") -> None:
        """Something that happens in this life of the process, about so many seconds later."""
        self.world.later(kind, seconds, self, *arguments, lane=lane)

    def deliver(self, message: Message) -> None:
        """Into the driver's inbox."""
        self.inbox.append(message)
        if len(self.inbox) == 1:
            self.post("turn", TURN_SECONDS, self.turns)

    def run(self, kind: str, arguments: tuple[Any, ...]) -> None:
        """Carry out what was posted; a process that is killed while it does is dead afterwards."""
        on_driver_thread = kind in ("lead", "turn")
        if on_driver_thread and self.is_busy:
            return  # It is blocked in the middle of a turn, and looks at its inbox afterwards.
        try:
            self.is_busy = on_driver_thread or self.is_busy
            handler = getattr(self, f"on_{kind}", None) or getattr(self.plane, f"on_{kind}")
            handler(*arguments)
        except Killed as death:
            self.die(f"killed {death}")
        except TridentError as error:
            self._end_by(error)
        except Violation:
            raise
        except AssertionError as error:
            raise Violation("A", f"{self.name}: {error}") from error  # one of the product's own
        finally:
            self.is_busy = self.is_busy and not on_driver_thread

    def _end_by(self, error: TridentError) -> None:
        self.errors.append(type(error).__name__)
        self.world.oracle.ended(self, error)
        if self.session is not None:
            self.session.close()
        self.die(f"{type(error).__name__}: {error}")

    def on_lead(self) -> None:
        """Try to lead, and take over."""
        try:
            session = self.session = Session.connect(self.world, self)
            before = self.world.oracle.record
            self.leaves_out = self.world.left_out
            candidate = Waiting("simulated")
            self.record_store = leadership._elected(candidate, session, "/trident")  # type: ignore[arg-type]
            if self.world.splits:
                self.record_store.__class__ = SplittingRecordStore
            record = recovered(
                self.world.rules, self.record_store, self._recoverables(), moved=self._moved, adopt=self._adopt
            )
        except (StillLed, StoreBusyException):
            self.world.timer(self, "lead", STANDBY_SECONDS)
            return
        except TopologyError as error:
            self.world.say(f"{self.name}: {error}")
            self.world.roll_back()
            self.world.server.end(session.id)
            self.die("the version before has to commit what is torn")
            return
        for name, store in self.stores.items():
            store.lags = False
            store.join(record.states.get(name, 1))
        self.world.oracle.took_over(self)
        self._add_source(record)
        exact = frozenset(name for name, source in self.world.sources.items() if source.exact)
        self._make_spouts(record)
        self.plane.lead(record)
        self.driver = CoordinatorDriver.leading(
            topology="simulated",
            store=self.record_store,
            record=record,
            streams=self.plane,
            spouts=tuple(self.world.sources),
            exact=exact,
            clock=LeaderClock(round(self.wall * 1000), self.world.now),
            draw_edge=self.draw_edge,
            settings=self._settings(),
            wished=self.wished,
        )
        weaken(self.driver, self.world.rules)
        weaken_wishes(self.driver, self.world.rules, before)
        self.driver.start(self.world.now, self.wall)
        self.post("turn", TURN_SECONDS, self.turns)

    def _settings(self) -> LeadershipSettings:
        return LeadershipSettings(
            max_spout_pending=self.world.max_spout_pending,
            message_timeout=MESSAGE_TIMEOUT_SECONDS,
            idle_turn=0.5,
            store_intents=self.world.pins or any(store.collects for store in self.world.stores.values()),
            group_max=self.world.group_max,
            attempts=self.world.attempts,
            backoff=self.world.backoff,
            backoff_max=2.0,
            stored_spouts=frozenset(s.name for s in self.world.sources.values() if s.learns or not s.exact),
            parks_poison=self.world.parks_poison,
            lettered=frozenset(name for name, store in self.outputs.items() if store.leaves_out),
        )

    def _make_spouts(self, record: CoordinatorRecord) -> None:
        self.coordinators, self.emitters = {}, {}
        for name, source in self.world.sources.items():
            coordinator: BatchCoordinator[Any] = SourceCoordinator(self.world, source)
            if source.learns:
                coordinator, self.emitters[name] = halves(self.world, source)
                positions = dict(record.cursors.get(name, Cursors()).items())
                self.emitters[name].restore(positions, record.closed_number)
            self.coordinators[name] = TridentSpoutCoordinator("simulated", name, coordinator, source.exact)

    def _moved(self, spout: str, definition: Any) -> Mapping[str, Any] | None:
        source = self.world.sources[spout]
        return halves(self.world, source)[1].moved(definition) if source.learns else {}

    def _adopt(self, record: CoordinatorRecord, torn: Torn | None) -> CoordinatorRecord:
        self.is_next = bool(record.seq) and not torn
        record = self._corrected(record, torn)
        if not self.world.leaves:
            return record
        record = adopted(record, torn, tuple(self.world.sources), tuple(self.stores))
        for name, store in self.world.stores.items():
            store.lags = store.lags or name not in self.stores
        return record

    def _corrected(self, record: CoordinatorRecord, torn: Torn | None) -> CoordinatorRecord:
        """Have the data of a batch that failed be corrected, perhaps, as the user accepts."""
        world = self.world
        sources = {name: source for name, source in world.sources.items() if source.exact and not source.learns}
        found = list(corrections_of(record, {name: SourceCoordinator(world, each) for name, each in sources.items()}))
        if not (world.corrects and found and world.chance.happens("corrected")):
            return record
        after = corrected(record, torn if world.has("corrected where none has it") else None, found)
        if after is not record:
            world.say(f"{self.name} reads corrected data")
            for each in found:
                sources[each.spout].correct(each.correction.definitions)
        return after

    def _add_source(self, record: CoordinatorRecord) -> None:
        """The next version of the topology leads from here on, if it may, and nobody leads by the one before."""
        world = self.world
        if world.added and self.is_next and not any(process.driver for process in world.processes):
            world.say(f"{self.name} has the source {world.added.name!r}, too")
            world.added.succeeded = record.bindings.upto(record.current_txid - 1)
            world.sources[world.added.name], world.added = world.added, None

    def _recoverables(self) -> list[Any]:
        return [Recovering(self, store) for store in self.stores.values()]

    def on_turn(self, number: int) -> None:
        """One turn of the driver, with everything that has come in; the next is due at the latest when it says."""
        driver = self.driver
        if driver is None or number != self.turns:
            return
        self.turns += 1
        messages, self.inbox = self.inbox, []
        began, window_at = self.world.now, self.plane.next_window_at()
        driver.turn(messages, began, self.wall)
        if window_at == self.plane.next_window_at():  # else a commit has landed: what that leaves is for the next turn
            self.world.oracle.turn_taken(self, driver, began, window_at)
        if self.inbox:
            self.post("turn", TURN_SECONDS, self.turns)
        else:
            seconds = driver.next_turn_at(self.world.now) - self.world.now
            if self.world.real_time or seconds <= 0:  # the explorer knows no moment but now
                self.world.timer(self, "turn", seconds, self.turns)

    def on_answer(self, spout: str, ask: Ask) -> None:
        """On the coordinator's thread; one that has nothing takes its time to say so, which makes peace cheap."""
        for answer in self.coordinators[spout].answers(ask):
            if isinstance(answer, NotReady) and self.world.real_time:
                self.post("report", NOTHING_SECONDS, answer)
            else:
                self.deliver(answer)

    def wished(self, _: object) -> None:
        """ZooKeeper tells whoever watches that there may be other wishes."""
        self.post("report", 0.002, WishesChanged())

    def on_report(self, message: Message) -> None:
        """A report has arrived."""
        self.deliver(message)

    def draw_edge(self) -> int:
        """An edge; different within one ledger, which is all that the acker needs."""
        self.next_edge += 1
        return 1 << self.next_edge


@define
class Recovering:
    """A store in the eyes of one takeover: each step may be the last."""

    process: Process
    store: Any

    @property
    def name(self) -> str:
        """The store's."""
        return str(self.store.name)

    @property
    def remembers(self) -> bool:
        """The store's."""
        return bool(self.store.remembers)

    @property
    def rolls_back(self) -> bool:
        """Whether a replay of its last transaction replaces what an earlier attempt of it has changed."""
        return bool(self.store.kind is StoreKind.UNDO)

    @property
    def is_volatile(self) -> bool:
        """No store is."""
        return False

    def recover(self, topology: Any, epoch: int) -> CommitToken | None:
        """Raise the fence; takes time, in which others go on."""
        self.process.may_crash("before a fence")
        self.process.world.wait(self.process, 0.01)
        last: CommitToken | None = self.store.recover(topology, epoch, (self.process.number, self.process.life))
        if self.remembers:
            self.process.known[self.name] = self.store.fence
        self.process.may_crash("after a fence")
        return last

    def pass_over(self, topology: Any, epoch: int, txids: range) -> None:
        """One by one, as a state that takes no runs does; each step may be the last."""
        for txid in txids:
            self.process.may_crash("before passing over")
            attempt = TransactionAttempt(txid, 0)
            self.store.pass_over(
                SinkTransaction(TransactionKey(topology.uuid, topology.incarnation, txid), attempt, epoch)
            )
        self.process.may_crash("after passing over")
