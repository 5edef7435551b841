"""Where the time of a small transaction goes: a flame graph of the driver's threads, and what each step costs.

    python -m benchmarks.profile [--transactions 60] [--pending 1] [--resident 0] [--svg FILE]

The threads of the topology are looked at every few milliseconds, waiting or not: waiting for the JVM is most of it.
Calls inside PySpark are one frame, so that what we call can be read.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from types import FrameType

from attrs import define, evolve, field

from benchmarks.sizes import FULL
from benchmarks.small import Turn, sentences
from benchmarks.stage import SMALL, Stage

EVERY_SECONDS = 0.003
OURS = ("trident_py", "coordinators")
IDLE = {
    *("Inbox.take", "DriverLoop._turns", "watched.<locals>.watch", "EventThread._next", "StandstillWatch._run"),
    *("run_in_tasks", "selectors: EpollSelector.select", "Threads._run", "AskingThreads._run"),
}
WARM_UP = 20

Stacks = Counter[tuple[str, ...]]
"""How often each stack was seen, from the outermost frame on."""


@define
class Sampler:
    """Looks at the topology's threads again and again."""

    stacks: Stacks = field(factory=Counter)
    looks: int = 0
    _over: threading.Event = field(factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Looks, as long as the block runs."""
        thread = threading.Thread(target=self._look, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _look(self) -> None:
        while not self._over.wait(EVERY_SECONDS):
            self.looks += 1
            names = {thread.ident: thread.name for thread in threading.enumerate()}
            for ident, frame in sys._current_frames().items():  # noqa: SLF001 - documented, for this
                stack = stack_of(frame)
                if stack and names.get(ident, "").startswith("trident"):
                    self.stacks[stack] += 1


def stack_of(frame: FrameType | None) -> tuple[str, ...]:
    """The frames of ours, and the first one of a library that they call; empty for a thread with nothing to do."""
    frames: list[tuple[str, str]] = []
    while frame is not None:
        frames.append((str(frame.f_globals.get("__name__")), frame.f_code.co_qualname))
        frame = frame.f_back
    frames.reverse()
    shown: list[str] = []
    inside = True
    for module, name in frames:
        if module.split(".")[0] in OURS:
            shown.append(name)
            inside = True
        elif inside and shown:
            shown.append(f"{module.split('.')[0]}: {name}")
            inside = False
    return () if not shown or any(name in IDLE for name in shown[-2:]) else tuple(shown)


WIDTH, ROW, LETTER = 1100, 18, 6.7
STYLE = """
text { font: 11px ui-monospace, monospace; fill: #222 }
rect { stroke: #fff; stroke-width: 0.5 }
.t { font: 600 14px system-ui, sans-serif }
@media (prefers-color-scheme: dark) { .t { fill: #ddd } }
"""


def flame(stacks: Stacks, ms: float, title: str) -> str:
    """The flame graph: the width of a frame is the time in it and its calls; seen once is ``ms`` a transaction."""
    height = (max(map(len, stacks), default=0) + 3) * ROW
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
            f"<title>{escape(title)}</title><style>{STYLE}</style>",
            f'<text class="t" x="4" y="16">{escape(title)}</text>',
            *_boxes(stacks, 0, 0.0, height, WIDTH / (stacks.total() or 1), ms),
            "</svg>",
            "",
        ]
    )


def _boxes(stacks: Stacks, level: int, left: float, height: int, unit: float, ms: float) -> Iterator[str]:
    groups: dict[str, Stacks] = {}
    for stack, count in stacks.items():
        if len(stack) > level:
            groups.setdefault(stack[level], Counter())[stack] += count
    for name, group in sorted(groups.items()):
        wide, top = unit * group.total(), height - (level + 1) * ROW
        if wide >= 1:
            yield f"<g><title>{escape(name)}: {group.total() * ms:.2f} ms a transaction</title>"
            yield f'<rect x="{left:.1f}" y="{top}" width="{wide:.1f}" height="{ROW}" fill="{_color(name)}"/>'
            yield f'<text x="{left + 2:.1f}" y="{top + 13}">{escape(name[: int(wide / LETTER)])}</text></g>'
            yield from _boxes(group, level + 1, left, height, unit, ms)
        left += wide


def _color(name: str) -> str:
    library, _, _ = name.partition(": ")
    return {"pyspark": "#f2a65a", "kazoo": "#8fb8de", "pyarrow": "#b7d77a"}.get(library, "#f6d186")


def steps(stacks: Stacks, ms: float) -> dict[str, float]:
    """Milliseconds a transaction in each frame and what it calls, the longest first; those below 0.1 are left out."""
    found: Counter[str] = Counter()
    for stack, count in stacks.items():
        found.update(dict.fromkeys(stack, count))
    return {name: round(ms * count, 2) for name, count in found.most_common() if ms * count >= 0.1}


def main(argv: list[str] | None = None) -> int:
    """Run some transactions, look at them, and tell."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile", description="Profiles small transactions.")
    parser.add_argument("--transactions", type=int, default=60)
    parser.add_argument("--pending", type=int, default=1)
    parser.add_argument("--resident", type=int, default=0, help="how many tasks stay; 0: Spark jobs")
    parser.add_argument("--svg", type=Path)
    arguments = parser.parse_args(argv)
    batches = list(sentences(WARM_UP + arguments.transactions, FULL))
    sampler = Sampler()
    with Stage.standing() as stage, stage.session(SMALL) as spark:
        turn = Turn.of(stage, arguments.pending)
        config = evolve(stage.config(arguments.pending), resident_tasks=arguments.resident)
        with turn.topology.start(config, spark=spark) as query:
            turn.feed.hand_out(batches[:WARM_UP])
            query.process_all_available()
            with sampler.running():
                started = time.perf_counter()
                turn.feed.hand_out(batches[WARM_UP:])
                query.process_all_available()
                seconds = time.perf_counter() - started
    whole = 1000 * seconds / arguments.transactions
    seen_once = whole / sampler.looks
    if arguments.svg:
        way = "a resident task" if arguments.resident else "Spark jobs"
        title = f"a transaction of 10 sentences, {arguments.pending} pending, by {way}: {whole:.1f} ms"
        arguments.svg.write_text(flame(sampler.stacks, seen_once, title))
    print(json.dumps({"ms_a_transaction": round(whole, 1), "steps": steps(sampler.stacks, seen_once)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
