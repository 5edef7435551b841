"""A simulated world: what outlives every process, what is under way, and time."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping
from typing import Any, cast

from attrs import define, evolve, field, frozen

from coordinators.backends.zookeeper.session import Conflict
from coordinators.backends.zookeeper.znodes import Create, Step
from coordinators.protocol.messages import PauseRequested, ResumeRequested
from coordinators.record.declarations import Declared
from coordinators.record.parking import Parked, StoredRows
from coordinators.record.wishes import Action
from tests.simulation.chance import Chance
from tests.simulation.copies import copied
from tests.simulation.oracle import RECORD, Oracle
from tests.simulation.plane import COMMIT_SECONDS, LATE_SECONDS
from tests.simulation.process import Killed, Process
from tests.simulation.rules import Rules
from tests.simulation.sources import Source
from tests.simulation.stores import Given, Group, ParkedRows, Rows, RowsRefusedError, Sent, Store, StoreKind
from tests.simulation.windows import Windows
from tests.simulation.wishes import PARENT, pending, wish_of
from tests.simulation.zookeeper import SESSION_SECONDS, Node, Server
from trident_py.errors import StoreBusyException, TridentError


@frozen
class Event:
    """Something that is going to happen: in one life of a process, or outside of all processes.

    Attributes:
        lane: events of one lane happen in the order in which they were made.
    """

    kind: str
    process: int | None
    life: int
    arguments: tuple[Any, ...]
    lane: str


@define(eq=False)
class World:
    """Everything there is.

    Attributes:
        shares: whether attempts share jobs.
        residents: how many tasks of a leader stay for small batches.
        large_rows: a batch of so many rows commits in a step of its own.
        added: a source that the next version of the topology has, too: from the next takeover on that can be one of it.
        attempts: so often a batch may fail by its own code.
        poison: the transaction that always does; 0: none.
        refuses: whether it is a store that fails it, when it commits; otherwise its job does.
        corrects: whether data of a batch that failed may be corrected before a takeover.
        window: the windows of every store; None: there are none.
        leaves: a store that every second version leaves out; none: "".
        version: which one processes run from their next takeover on; counted from 0.
        splits: whether a record takes several writes.
        together: whether all stores are in one database, and commit in one transaction of it.
        real_time: whether events happen when they are due; the explorer takes them in every order instead.
        pending: what is under way, by time.
        frozen: what a paused process will find when it goes on.
        wished: how often an operator has wished something.
        parks_poison: whether a transaction that fails too often is parked.
        parked: what was ever parked.
        files: the rows that were stored for parked transactions, by file.
        is_mended: whether what always failed fails no more.
    """

    chance: Chance
    rules: Rules
    stores: dict[str, Store]
    sources: dict[str, Source]
    max_spout_pending: int
    backoff: float = 0.05
    attempts: int = 1000
    poison: int = 0
    refuses: bool = False
    corrects: bool = False
    pins: bool = False
    shares: bool = False
    residents: int = 0
    splits: bool = False
    together: bool = False
    large_rows: int = 10**9
    parks_poison: bool = False
    parked: ParkedRows = field(factory=ParkedRows)
    files: dict[str, Rows] = field(factory=dict)
    is_mended: bool = False
    added: Source | None = None
    window: Windows | None = None
    leaves: str = ""
    version: int = 0
    real_time: bool = True
    reads_are_stale: bool = False
    now: float = 0.0
    server: Server = field(factory=Server)
    processes: list[Process] = field(factory=list)
    pending: list[tuple[float, int, Event]] = field(factory=list)
    frozen: list[Event] = field(factory=list)
    oracle: Oracle = field(init=False)
    log: list[str] | None = None
    steps: int = 0
    wished: int = 0
    backup: tuple[dict[str, Node], dict[str, Store]] | None = None
    _made: int = 0
    _lanes: dict[tuple[int | None, int, str], float] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        """The checker looks at all of it."""
        self.oracle = Oracle(self)
        self.server.keeps_past = self.reads_are_stale

    @property
    def group_max(self) -> int:
        """How many transactions may commit together, by the rule of the runtime."""
        feeds = any(store.fed_by for store in self.stores.values()) and self.has("values one by one")
        alone = self.pins or (feeds and not self.together)
        return self.max_spout_pending if self.shares and not alone else 1

    @property
    def left_out(self) -> str:
        """The store that the version which is rolled out leaves out; none: ""."""
        return self.leaves if self.version % 2 else ""

    def has(self, rule: str) -> bool:
        """Whether a rule holds here."""
        return self.rules.has(rule)

    def say(self, text: str) -> None:
        """A line of the log."""
        if self.log is not None:
            self.log.append(f"{self.now:9.3f} {text}")

    # --- time ---------------------------------------------------------------------------------------------------------

    def later(self, kind: str, seconds: float, process: Process | None, *arguments: Any, lane: str = "") -> None:
        """``kind`` will happen, about so many seconds from now."""
        number, life = (process.number, process.life) if process else (None, 0)
        self._add(self.chance.delay(seconds), Event(kind, number, life, arguments, lane))

    def timer(self, process: Process, kind: str, seconds: float, *arguments: Any) -> None:
        """``kind`` is due at a moment, neither sooner nor later."""
        self._add(seconds, Event(kind, process.number, process.life, arguments, ""))

    def nemesis(self, kind: str, seconds: float, *arguments: Any) -> None:
        """Something from outside happens in so many seconds."""
        self._add(seconds, Event(kind, None, 0, arguments, ""))

    def _add(self, seconds: float, event: Event) -> None:
        due = self.now + seconds
        if event.lane:
            key = (event.process, event.life, event.lane)
            due = self._lanes[key] = max(due, self._lanes.get(key, 0.0))
        self._made += 1
        heapq.heappush(self.pending, (due, self._made, event))

    def run_next(self) -> None:
        """The next event happens."""
        due, _, event = heapq.heappop(self.pending)
        self.pass_time(due)
        self.happen(event)

    def pass_time(self, until: float) -> None:
        """Sessions of processes that can't renew them expire."""
        self.now = max(until, self.now)
        for process in self.processes:
            session = process.session
            if session is None or session.id not in self.server.sessions:
                continue
            if process.is_alive and not process.is_paused and not process.is_cut and session.ended is None:
                self.server.sessions[session.id] = self.now
        for session_id, heard in list(self.server.sessions.items()):
            if self.now - heard > SESSION_SECONDS:
                self.say(f"session {session_id} expires")
                self.server.end(session_id)

    def wait(self, process: Process, seconds: float) -> None:
        """``process`` is blocked for so long; everybody else goes on. It may be dead or paused afterwards."""
        if not self.real_time:
            return
        life, until = process.life, self.now + self.chance.delay(seconds)
        while self.pending and (self.pending[0][0] <= until or process.is_paused):
            self.run_next()
            if process.life != life or not process.is_alive:
                raise Killed("while it waited")
        self.pass_time(until)

    # --- what happens -------------------------------------------------------------------------------------------------

    def happen(self, event: Event) -> None:
        """One event, and then every invariant."""
        self.steps += 1
        if event.process is None:
            getattr(self, f"on_{event.kind.replace(' ', '_')}")(*event.arguments)
            return
        process = self.processes[event.process]
        if process.life != event.life or not process.is_alive:
            return
        if process.is_paused:
            self.frozen.append(event)
            return
        if self.log is not None:
            self.say(f"{process.name} {event.kind} {' '.join(map(str, event.arguments))}")
        process.run(event.kind, event.arguments)

    def on_start(self, number: int, life: int) -> None:
        """A supervisor starts a process again."""
        if self.processes[number].life == life:
            self.processes[number].start()

    def on_grow(self, name: str, rows: int) -> None:
        """There is more input."""
        self.sources[name].available += rows

    def on_ask(self, number: int) -> None:
        """Somebody asks the states of the topology that a process leads."""
        process = self.processes[number]
        if process.is_alive and process.driver is not None:
            process.plane.ask_states()

    def on_wish(self, action: Action, *txids: int) -> None:
        """An operator wishes something, whoever leads."""
        self.wished += 1
        wish = wish_of(self.wished, action, txids)
        self.say(f"an operator wishes {wish.id}: {action}")
        self.oracle.wishes.made[wish.id] = wish
        self.apply([Create(f"{PARENT}/{wish.id}", wish.text.encode())], 0)
        self.oracle.wishes.waiting = pending(self.server.nodes)

    def on_park(self, ahead: int) -> None:
        """An operator parks the transaction that is committed next, or one behind it."""
        self.on_wish(Action.PARK, self.oracle.committed + 1 + ahead)

    def on_mend(self, action: Action) -> None:
        """An operator releases all that is parked, or skips, bisects or tries again the first of it."""
        parked = self.oracle.record.parked.entries if self.oracle.record else ()
        if action is Action.RELEASE:
            self.on_wish(action)
        elif parked and action in (Action.SKIP, Action.BISECT, Action.ROWS):
            self.on_wish(action, parked[0].txid)
        elif action is Action.RETRY:
            self.on_wish(action)

    def on_letters(self) -> None:
        """An operator releases the dead letters of all stores."""
        self.on_wish(Action.LETTERS)

    def kept(self, stored: StoredRows) -> Rows:
        """The rows of a file that belong to an entry."""
        rows = self.files[stored.file]
        return tuple(row for first, stop in stored.runs for row in rows[first:stop])

    def rows_of(self, entry: Parked, spout: str) -> Rows:
        """The rows of a spout in what was parked."""
        if spout in entry.stored:
            return self.kept(entry.stored[spout])
        begin, end = cast("list[int]", entry.definition[spout])
        return tuple((spout, n) for n in range(begin, end))

    def release_all(self) -> bool:
        """At the end: the code is mended, and all that is parked is released; whether an operator wishes that now."""
        self.is_mended = self.parks_poison
        record, waiting = self.oracle.record, self.oracle.wishes.waiting
        is_wished = any(self.oracle.wishes.made[wish].action is Action.RELEASE for wish in waiting)
        is_due = record is not None and any(not each.is_wanted for each in record.parked.entries) and not is_wished
        if is_due:
            self.on_wish(Action.RELEASE)
        return is_due

    def on_own_pause(self, number: int) -> None:
        """The program that runs a topology pauses it by itself, if it leads."""
        process = self.processes[number]
        if process.is_alive and process.driver is not None:
            self.say(f"{process.name} pauses itself")
            process.has_paused = True
            process.deliver(PauseRequested())

    def end_own_pauses(self) -> None:
        """Each process that has paused itself goes on; a leader that hasn't has nothing to lift."""
        for process in self.processes:
            if process.is_alive and process.has_paused:
                process.has_paused = False
                process.deliver(ResumeRequested())

    # --- versions -----------------------------------------------------------------------------------------------------

    def may_roll_out(self) -> bool:
        """Once the version before has led."""
        record = self.oracle.record
        if not self.leaves or record is None or record.declared is None:
            return False
        until = Declared.of(record.declared).outputs[self.leaves].until
        return bool(self.left_out) == (until is not None)

    def on_roll_out(self) -> None:
        """All processes are stopped at once, and start again with the next version."""
        if self.may_roll_out():
            self.version += 1
            self.say(f"version {self.version} is rolled out")
            self._stop_everything("stopped for the next version")

    def roll_back(self) -> None:
        """The version before goes on, until the next one is rolled out once more."""
        self.version -= 1

    # --- what the nemesis does ----------------------------------------------------------------------------------------

    def on_kill(self, number: int) -> None:
        """SIGKILL."""
        if self.processes[number].is_alive:
            self.processes[number].die("SIGKILL")

    def on_pause(self, number: int, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after so many seconds."""
        process = self.processes[number]
        if process.is_alive and not process.is_paused:
            process.is_paused = True
            self.say(f"{process.name} is stopped for {seconds} s")
            self.nemesis("go on", seconds, number, process.life)

    def on_go_on(self, number: int, life: int) -> None:
        """SIGCONT."""
        process = self.processes[number]
        if process.life == life and process.is_paused:
            process.is_paused = False
            self.say(f"{process.name} goes on")
            frozen, self.frozen = self.frozen, []
            for event in frozen:
                if event.process == number:
                    self._add(0.0, event)
                else:
                    self.frozen.append(event)

    def on_cut(self, number: int, seconds: float) -> None:
        """No packet between a process and ZooKeeper, for so many seconds."""
        self.processes[number].is_cut = True
        self.say(f"{self.processes[number].name} is cut off for {seconds} s")
        self.nemesis("heal", seconds, number)

    def on_heal(self, number: int) -> None:
        """Packets pass again."""
        self.processes[number].is_cut = False

    # --- what no protocol can repair ----------------------------------------------------------------------------------

    def on_back_up(self) -> None:
        """Somebody copies ZooKeeper and one of the stores, or the database that has all of them."""
        name = self.chance.pick("which store", list(self.stores))
        names = list(self.stores) if self.together else [name]
        self.backup = (dict(self.server.nodes), copied({name: self.stores[name] for name in names}))

    def on_damage(self, kind: str) -> None:
        """Everything stops, something is not what it was, everything starts again."""
        loses = "a store loses commits"
        if self.oracle.damaged and loses in (kind, self.oracle.damaged):
            return  # one of them at a time is enough
        if kind == loses:
            self._lose_commits(kind)
            return
        if kind == "record damaged" and RECORD not in self.server.nodes:
            return  # nobody has written one yet
        nodes, stores = self.backup or (self.server.nodes, {})
        self._stop_everything("stopped for maintenance")
        if kind == "ZooKeeper restored from the past":
            self.server.nodes = {path: node for path, node in nodes.items() if node.owner is None}
        elif kind == "a store restored from the past":
            self.stores |= copied(stores)
            self._break_off(stores)
        elif kind == "record damaged":
            record = self.server.nodes[RECORD]
            self.server.nodes = {**self.server.nodes, RECORD: evolve(record, data=record.data[:-9])}
        elif kind == "source truncated":
            source = self.sources[self.chance.pick("which source", list(self.sources))]
            source.lost_upto = source.available
        self.say(kind)
        self.oracle.was_damaged(kind)

    def _break_off(self, names: Collection[str]) -> None:
        """Commits under way to stores that are restored end with their connections."""

        def is_ended(event: Event) -> bool:
            return event.kind == "effects" or (event.kind in {"lock", "effect"} and event.arguments[0] in names)

        self.pending = [each for each in self.pending if not is_ended(each[2])]
        heapq.heapify(self.pending)

    def _lose_commits(self, kind: str) -> None:
        """A store's server fails over to one that lagged; who is connected connects again."""
        _, stores = self.backup or ({}, {})
        if not stores or not all(store.remembers for store in stores.values()):
            return
        self._break_off(stores)
        staged = {name: self.stores[name].staged for name in stores}
        self.stores |= copied(stores)
        for name in stores:
            self.stores[name].staged = staged[name] if self.stores[name].inline else {}
        self.say(kind)
        self.oracle.was_damaged(kind)

    def _stop_everything(self, why: str) -> None:
        for process in self.processes:
            self.on_heal(process.number)
            if process.is_alive:
                process.die(why)
        for session in list(self.server.sessions):
            self.server.end(session)
        self.server.past.clear()

    # --- writes -------------------------------------------------------------------------------------------------------

    def apply(self, steps: list[Step], session: int) -> None:
        """A write that has come to the servers."""
        names = self.server.names(PARENT)
        self.server.apply(steps, session)
        self.oracle.record_written()
        if self.server.names(PARENT) != names:
            watched, self.server.watched = self.server.watched, set()
            for _, number, life in sorted(watched):
                if self.processes[number].life == life:
                    self.processes[number].wished(None)

    def on_late_write(self, steps: list[Step], session: int) -> None:
        """A write that nobody waits for any more; its session may have ended."""
        if session in self.server.sessions:
            try:
                self.apply(steps, session)
            except Conflict as conflict:
                self.say(f"a late write of session {session} is refused: {conflict}")

    def land_late_write(self) -> None:
        """A write that is late may come to the servers just ahead of another one."""
        late = next((entry for entry in self.pending if entry[2].kind == "late write"), None)
        if late is not None and self.chance.happens("late write first"):
            self.pending.remove(late)
            heapq.heapify(self.pending)
            self.happen(late[2])

    # --- commits ------------------------------------------------------------------------------------------------------

    def send_commit(self, process: Process, name: str, group: Group, rows: Sent) -> None:
        """A commit goes to a store."""
        store, sender = self.stores[name], (process.number, process.life)
        if store.kind is StoreKind.UNFENCED:
            self.on_effect(name, group, rows, sender)  # in the very moment of the check
        elif self.chance.happens("commit lost"):
            if self.chance.happens("commit lands late"):
                self.later("lock" if store.locks else "effect", LATE_SECONDS, None, name, group, rows, None)
            done = None if not self.has("unknown is not done") else StoreBusyException("no answer")
            process.post("committed", 0.5, name, ((),) * len(group), done)
        else:
            pause = LATE_SECONDS if self.chance.happens("pause before commit") else COMMIT_SECONDS
            self.later("lock" if store.locks else "effect", pause, None, name, group, rows, sender)

    def send_together(self, process: Process, groups: Mapping[str, Group], sent: Mapping[str, Sent]) -> None:
        """A commit goes to a database: to all of its stores."""
        sender: tuple[int, int] | None = (process.number, process.life)
        if self.chance.happens("commit lost"):
            process.post("committed_together", 0.5, StoreBusyException("no answer"))
            sender = None
            if not self.chance.happens("commit lands late"):
                return
        self.later("effects", LATE_SECONDS if sender is None else COMMIT_SECONDS, None, groups, sent, sender)

    def on_effects(self, groups: Mapping[str, Group], sent: Mapping[str, Sent], sender: tuple[int, int] | None) -> None:
        """It lands in all of them, and in those that their new values go into, or in none."""
        before: dict[str, Store] = copied(self.stores)
        group = next(iter(groups.values()))
        error: BaseException | None = None
        try:
            self._refuse_poison(group)
            for name, rows in sent.items():
                self._check_kept(name, sender)
                values = self.stores[name].apply(groups[name], rows)
                for fed in (store for store in self.stores.values() if store.fed_by == name):
                    fed.apply(groups[name], values)
            self.say(f"the database has {group[-1].token}")
        except (TridentError, StoreBusyException, RowsRefusedError) as refused:
            error = refused
            self.say(f"the database refuses {group[0].token}: {error}")
            self.stores = before
        for store in self.stores.values():
            store.check(self.parked)
        self.oracle.effect_landed()
        if sender is not None and self.processes[sender[0]].life == sender[1]:
            process = self.processes[sender[0]]
            for name in self.stores if error is None else ():
                process.saw_commit(name, group)
            process.post("committed_together", 0.002, error)

    def on_lock(self, name: str, group: Group, rows: Sent, sender: tuple[int, int] | None) -> None:
        """A commit takes the lock of a store; it lands later, and its sender may be paused until then."""
        try:
            self._check_kept(name, sender)
            self.stores[name].lock(group)
        except (TridentError, StoreBusyException) as refused:
            self._answer(name, group, sender, (), refused)
            return
        pause = LATE_SECONDS if self.chance.happens("pause before commit") else COMMIT_SECONDS
        self.later("effect", pause, None, name, group, rows, sender)

    def on_effect(self, name: str, group: Group, rows: Sent, sender: tuple[int, int] | None) -> None:
        """A commit lands in a store; whoever sent it may be gone."""
        store, error = self.stores[name], None
        values: Given = ()
        try:
            self._check_kept(name, sender)
            self._refuse_poison(group)
            values = (store.land if store.locks else store.apply)(group, rows)
            self.say(f"{name} has {group[-1].token}")
        except (TridentError, StoreBusyException, RowsRefusedError) as refused:
            error = refused
        store.check(self.parked)
        self.oracle.effect_landed()
        if self.chance.happens("store restarts"):
            store.restart()
        self._answer(name, group, sender, values, error)

    def _refuse_poison(self, group: Group) -> None:
        poisoned = [tx.txid for tx in group if tx.txid == self.poison and tx.parks is None]
        if self.refuses and poisoned:
            raise RowsRefusedError(*poisoned)

    def _check_kept(self, name: str, sender: tuple[int, int] | None) -> None:
        number = sender[0] if sender else 0
        if sender == (number, self.processes[number].life):
            self.processes[number].check_kept(name)

    def _answer(
        self, name: str, group: Group, sender: tuple[int, int] | None, values: Given, error: BaseException | None
    ) -> None:
        if error is not None:
            self.say(f"{name} refuses {group[0].token}: {error}")
        if sender is None or self.processes[sender[0]].life != sender[1]:
            return
        if self.chance.happens("commit reply lost") and error is None:
            # Read back, under the same lock: it is there.
            store = self.stores[name]
            is_done = bool(store.ledger) and store.ledger[-1].token == group[-1].token
            error = None if is_done else StoreBusyException("no answer")
        process = self.processes[sender[0]]
        if error is None:
            process.saw_commit(name, group)
        process.post("committed", 0.002, name, values, error)
