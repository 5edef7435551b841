"""The ``trident`` command: its parser, the module of each command, and the handling of errors.

A command's module is loaded only when the command runs, so ``trident script`` loads neither Spark nor ZooKeeper.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from coordinators.values.error_text import safe_text
from coordinators.values.errors import TridentError
from trident_py.cli import logs
from trident_py.cli.terminal import failure_text, traceback_text
from trident_py.cli.usage import RunError, UsageError
from trident_py.wishing import ANSWER_SECONDS, SEARCH_SECONDS

SUCCESS, FAILURE, USAGE = 0, 1, 2
NUMBER_MAX = 2**63 - 1
"""The largest transaction number, which is the largest integer of the databases."""

COMMANDS = {
    "run": "run a topology until it is interrupted",
    "demo": "count the words of Python's own standard library",
    "status": "show the state and the leader of one topology, or of all",
    "tx": "list the transactions of a topology, show one or its rows, or park, release, skip, bisect or retry it",
    "watch": "show the transactions of a running topology as they happen",
    "script": "play a protocol trace",
    "doctor": "check that all requirements are installed and work",
    "explain": "show the plan of a topology",
    "compact": "copy the committed rows of a FileSink into few files",
    "pause": "start no new batches of a topology until `trident resume`",
    "resume": "end the effect of `trident pause`, `drain` and `rate` on a topology",
    "drain": "commit the batches in flight of a topology, then pause it",
    "rate": "slow a topology down until `trident resume`",
    "request": "send a request to a running topology, as `TridentQuery.execute` does in its own process",
    "dead-letters": "show the rows that branches left out because a row function raised, or process some again",
    "try": "run other code over the rows of a parked or committed transaction, and write nothing",
    "ui": "serve the page of a topology from its history, whether it runs or not",
    "reset": "delete a topology's position, so that it starts from the beginning",
    "import": "let a topology that has never run continue where a topology of Storm has stopped",
}
"""The description of each command. The module of the same name runs it; `wish` runs the commands of operators.

A module can't be called `import`: that one is `importing`."""

SETTLE_SECONDS = 60.0
"""Twice the default of Storm's topology.message.timeout.secs, after which a transaction has failed or is committed."""

WISHES = ("pause", "resume", "drain", "rate")
MENDING = ("park", "release", "skip", "bisect", "retry")

TARGET_WORDS = "module:topology or file.py:topology; leave out :topology if there is only one"
STATUS_WORDS = (
    "The epoch counts the leaderships of a topology; a process with an older epoch can't write any more. Last attempts "
    "are the attempts of transactions that were tried and are not committed. 5:2 is the third try of transaction 5, "
    "because tries count from 0."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit code.

    The code is 0 for success, 1 for failure and 2 for a wrong command line. It is 3 if ``trident run`` ended by an
    error that a restart doesn't fix.

    Args:
        argv: the words after ``trident``; None: the arguments of this process.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    if not words:
        _parser().print_help(sys.stderr)
        return USAGE
    if meant := _meant(words[0]):
        print(f"trident: there is no command {words[0]!r}; did you mean {meant}?", file=sys.stderr)
        return USAGE
    try:
        arguments = _parser().parse_args(words)
    except SystemExit as end:  # argparse has printed the reason
        return USAGE if end.code else SUCCESS
    logs.set_up(_log_format(arguments), debug=arguments.debug)
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        logs.log.error("interrupted")
    except BrokenPipeError:
        # The reader of our output has closed it; the interpreter would fail once more when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILURE


def _meant(word: str) -> str | None:
    """Return the command most like ``word``; None if ``word`` is a command, or like no command."""
    return None if word in COMMANDS else next(iter(get_close_matches(word, COMMANDS, 1)), None)


def _run(arguments: argparse.Namespace) -> int:
    try:
        status: int = import_module(f"trident_py.cli.{arguments.module}").run(arguments)
        sys.stdout.flush()
    except UsageError as error:
        _explain(error, arguments, prefix="" if error.stands_alone else "trident: ")
        return USAGE
    except TridentError as error:
        _explain(error, arguments, prefix="trident: ")
        return _failure(error, arguments)
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - the last place where it can be shown
        _explain_unknown(error.__cause__ or error if isinstance(error, RunError) else error, arguments)
        return FAILURE
    return status


def _explain(error: TridentError, arguments: argparse.Namespace, prefix: str) -> None:
    if _log_format(arguments) == logs.JSON:
        logs.log.error("%s", failure_text(error), exc_info=error)
        return
    if arguments.debug:
        print(traceback_text(error), file=sys.stderr)
    print(f"{prefix}{failure_text(error)}", file=sys.stderr)


def _explain_unknown(error: BaseException, arguments: argparse.Namespace) -> None:
    """Print an unexpected error, with its traceback, which shows where it was raised."""
    if _log_format(arguments) == logs.JSON:
        logs.log.critical("%s", failure_text(error), exc_info=error)
    else:
        print(f"{traceback_text(error)}\ntrident: {failure_text(error)}", file=sys.stderr)


def _failure(error: TridentError, arguments: argparse.Namespace) -> int:
    if arguments.module != "run":
        return FAILURE
    from trident_py.cli.halt import exit_code  # its imports are loaded by then

    return exit_code(error)


def _log_format(arguments: argparse.Namespace) -> str:
    return getattr(arguments, "log_format", logs.TEXT)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="trident", description="Exactly-once batch pipelines on Apache Spark.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('trident-py')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("-v", "--debug", action="store_true", help="log what happens, and show tracebacks")
    where = _where()
    report = _report()
    pending = _processing()

    def add(name: str, *parents: argparse.ArgumentParser) -> argparse.ArgumentParser:
        text = COMMANDS[name]
        command = commands.add_parser(name, parents=[common, *parents], help=text, description=text)
        command.set_defaults(module=name)
        return command

    history = _history()
    _add_run_options(add("run", where, history, pending, report))
    _add_demo_options(add("demo", where, pending, report))
    _add_status_options(add("status", where, history, report))
    _add_tx_options(add("tx", where, history, report))
    _add_watch_options(add("watch", where, history, report))
    add("script").add_argument("file", metavar="FILE", help="a script; - for standard input")
    add("doctor", where, report)
    add("explain").add_argument("target", metavar="TARGET", help=TARGET_WORDS)
    _add_compact_options(add("compact"))
    for name in WISHES:
        _add_wish_options(name, add(name, where, report))
    _add_request_options(add("request", where, report))
    _add_letters_options(add("dead-letters", where, report))
    _add_try_options(add("try", where, history, report))
    _add_ui_options(add("ui", where, history))
    _add_reset_options(add("reset", where))
    _add_import_options(add("import", where))
    return parser


def _add_ui_options(ui: argparse.ArgumentParser) -> None:
    ui.add_argument(
        "name", metavar="NAME", type=_text, nargs="?", help="the topology; may be left out if there is only one"
    )
    _add_serve_options(ui, "127.0.0.1:8080")


def _add_status_options(status: argparse.ArgumentParser) -> None:
    status.add_argument("name", metavar="NAME", type=_text, nargs="?", help="the topology; without it, all topologies")
    status.epilog = STATUS_WORDS


def _add_reset_options(reset: argparse.ArgumentParser) -> None:
    reset.add_argument("name", metavar="NAME", type=_text, help="the topology")
    reset.add_argument("--yes", action="store_true", help="don't ask for confirmation")


def _add_import_options(command: argparse.ArgumentParser) -> None:
    command.set_defaults(module="importing")
    command.add_argument("target", metavar="TARGET", help=TARGET_WORDS)
    command.add_argument(
        "--from-storm",
        metavar="NAME",
        type=_text,
        required=True,
        help="the name of the topology in Storm, where it is killed or inactive",
    )
    command.add_argument(
        "--state",
        metavar="NAME=FROM",
        action="append",
        type=_text,
        help="the first values of a state, once for each state: NAME=KIND,hash=KEY or NAME=KIND,strings=PREFIX* for a "
        "RedisMapState, or NAME=empty. KIND is opaque, transactional or non-transactional. Add ,tasks=1 if the state "
        "had one task in Storm",
    )
    _add_storm_options(command)


def _add_storm_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--redis",
        metavar="URL",
        help="the Redis server of these values, as redis://host:port/db; set it in TRIDENT_STORM_REDIS, if it has a "
        "password",
    )
    command.add_argument(
        "--storm-zookeeper",
        metavar="HOSTS",
        help="Storm's ZooKeeper; without it, it is the one of --zookeeper. A login, user:password, is read from "
        "TRIDENT_STORM_ZOOKEEPER_AUTH",
    )
    command.add_argument(
        "--storm-root", metavar="ZNODE", default="/storm", help="Storm's storm.zookeeper.root (/storm)"
    )
    command.add_argument(
        "--transactional-root",
        metavar="ZNODE",
        default="/transactional",
        help="Storm's transactional.zookeeper.root (/transactional)",
    )
    command.add_argument(
        "--settle",
        metavar="SECONDS",
        type=_seconds,
        default=SETTLE_SECONDS,
        help="how long to wait for the last transactions of an inactive topology: at least twice its "
        f"topology.message.timeout.secs ({SETTLE_SECONDS:g})",
    )


def _add_wish_options(name: str, wish: argparse.ArgumentParser) -> None:
    wish.set_defaults(module="wish", action=name)
    wish.add_argument("name", metavar="NAME", type=_text, help="the topology")
    _add_timeout_option(wish)
    wish.add_argument("--reason", metavar="TEXT", default="", help="the reason, which `trident status` shows to others")
    if name == "rate":
        wish.add_argument(
            "--batches-per-second", metavar="X", type=float, help="the limit of new batches; replays don't wait"
        )
        wish.add_argument("--pending", metavar="N", type=int, help="the limit of transactions processed at once")
        wish.add_argument(
            "--max-batch", metavar="N", type=int, help="the limit of rows in a new batch, for spouts that support it"
        )


def _add_request_options(request: argparse.ArgumentParser) -> None:
    request.add_argument("name", metavar="NAME", type=_text, help="the topology, which must run with --serve")
    request.add_argument("function", metavar="FUNCTION", type=_text, help="the name that was given to new_drpc_stream")
    request.add_argument("args", metavar="ARGS", type=_text, nargs="?", default="", help="the argument of the request")
    request.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=_seconds,
        default=ANSWER_SECONDS,
        help=f"how long to wait for an answer, including changes of the leader ({ANSWER_SECONDS:g})",
    )


def _add_serve_options(command: argparse.ArgumentParser, default: str | None = None) -> None:
    command.add_argument(
        "--serve",
        metavar="HOST:PORT",
        default=default,
        help=f"the address of its page and of requests{f' ({default})' if default else ''}",
    )
    command.add_argument(
        "--serve-cert", metavar="PEM", help="a certificate for HTTPS: required if other machines connect"
    )
    command.add_argument("--serve-key", metavar="PEM", help="its private key")


def _processing() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument(
        "--max-spout-pending", type=int, metavar="N", help="the number of transactions processed at once"
    )
    options.add_argument(
        "--resident-tasks",
        type=_task_count,
        metavar="N|auto",
        help="how many Spark tasks stay for small batches, which then take milliseconds (0)",
    )
    return options


def _task_count(text: str) -> int | str:
    if text == "auto" or text.isdecimal():
        return text if text == "auto" else int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor 'auto'")


def _add_run_options(run: argparse.ArgumentParser) -> None:
    run.add_argument("target", metavar="TARGET", help=TARGET_WORDS)
    run.add_argument("--once", action="store_true", help="end when all data that exists now is processed")
    run.add_argument(
        "--standby", action="store_true", help="wait, without limit, until no other process leads it; then run it"
    )
    spark = run.add_mutually_exclusive_group()
    spark.add_argument(
        "--master",
        metavar="URL",
        help="the Spark master, as spark://host:7077; the default is Spark's own setting, or local[*]",
    )
    spark.add_argument("--remote", metavar="URL", help="the Spark Connect server, as sc://host:15002")
    run.add_argument(
        "--driver-host", metavar="HOST", help="an address of this machine that the executors of the master can reach"
    )
    run.add_argument(
        "--py-files",
        metavar="FILES",
        type=lambda files: tuple(map(Path, files.split(","))),
        default=(),
        help="more code for the workers than the target's: .py and .zip files and packages, separated by commas",
    )
    _add_serve_options(run)
    run.add_argument(
        "--accept", metavar="CHANGE", action="append", help="an intended change, as a refused start prints it"
    )
    run.add_argument(
        "--on-halt",
        metavar="COMMAND|URL",
        help="receives JSON about the error that ended the topology: a command, or a URL for a POST",
    )
    run.add_argument(
        "--log-format",
        choices=(logs.TEXT, logs.JSON),
        default=logs.TEXT,
        help="the format of standard error: text, or a JSON object per line, with topology and transaction (text)",
    )


def _add_demo_options(demo: argparse.ArgumentParser) -> None:
    demo.add_argument("--source", metavar="DIRECTORY", type=Path, help="count the words of these Python files instead")
    demo.add_argument(
        "--kafka",
        action="store_true",
        help="process orders from Kafka into a table and a topic instead, with crashes in between",
    )


def _report() -> argparse.ArgumentParser:
    report = argparse.ArgumentParser(add_help=False)
    report.add_argument("--json", action="store_true", help="print JSON")
    return report


def _add_tx_options(tx: argparse.ArgumentParser) -> None:
    tx.add_argument("name", metavar="NAME", type=_text, help="the topology")
    tx.add_argument(
        "action",
        choices=("list", "show", "rows", *MENDING),
        help="list the last transactions, or show one. Park leaves one out until its release. Release processes parked "
        "ones again. Skip never counts them. Bisect finds the rows of a parked one that fail, and releases the others. "
        "Rows shows the rows of a parked one. Retry tries one at once",
    )
    tx.add_argument("txids", metavar="TXID", type=_positive, nargs="*", help="the transactions; list takes none")
    tx.add_argument("--all", action="store_true", help="release all parked transactions")
    _add_late_option(tx)
    tx.add_argument("--reason", metavar="TEXT", default="", help="why, for those who see the parked transaction")
    _add_timeout_option(tx, f"{ANSWER_SECONDS:g}, and {SEARCH_SECONDS:g} for bisect")
    _add_last_option(tx)
    tx.add_argument("--failed", action="store_true", help="list only transactions with a failed attempt")
    tx.add_argument("--parquet", metavar="FILE", type=Path, help="write the rows of one spout to FILE (rows)")
    tx.add_argument("--spout", metavar="NAME", type=_text, help="only the rows of this spout (rows)")
    _add_parked_dir_option(tx)


def _add_late_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--late", action="store_true", help="release even rows that are late for a window and would be lost"
    )


def _add_letters_options(letters: argparse.ArgumentParser) -> None:
    letters.set_defaults(module="letters")
    letters.add_argument("name", metavar="NAME", type=_text, help="the topology")
    letters.add_argument(
        "action", choices=("list", "release"), help="list the last ones. Release processes some again, in their branch"
    )
    letters.add_argument("txids", metavar="TXID", type=_positive, nargs="*", help="the transactions (release)")
    letters.add_argument("--all", action="store_true", help="release the letters of all transactions")
    letters.add_argument("--branch", metavar="NAME", type=_text, default="", help="only those of this branch (release)")
    _add_late_option(letters)
    letters.add_argument(
        "--reason", metavar="TEXT", default="", help="why, for those who see the transaction (release)"
    )
    letters.add_argument("--last", metavar="N", type=_positive, default=20, help="the number of dead letters (20)")
    _add_timeout_option(letters)


def _add_try_options(trying: argparse.ArgumentParser) -> None:
    trying.set_defaults(module="trying")
    trying.add_argument(
        "name", metavar="NAME", type=_text, help="the topology that has parked or committed the transaction"
    )
    trying.add_argument("txids", metavar="TXID", type=_positive, nargs=1, help="the transaction")
    trying.add_argument("target", metavar="TARGET", help=TARGET_WORDS)
    trying.add_argument("--against", metavar="TARGET", help="show only how the changes differ from those of this code")
    _add_parked_dir_option(trying)
    _add_timeout_option(trying)


def _add_parked_dir_option(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--parked-dir", metavar="DIRECTORY", type=Path, help="the parked_dir of the topology, if it has one"
    )


def _add_watch_options(watch: argparse.ArgumentParser) -> None:
    watch.set_defaults(module="follow")
    watch.add_argument("name", metavar="NAME", type=_text, help="the topology")
    _add_last_option(watch)


def _add_timeout_option(command: argparse.ArgumentParser, default: str = f"{ANSWER_SECONDS:g}") -> None:
    command.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=_seconds,
        help=f"how long to wait for the leader; the command takes effect even later ({default})",
    )


def _add_last_option(command: argparse.ArgumentParser) -> None:
    command.add_argument("--last", metavar="N", type=_positive, default=20, help="the number of transactions (20)")


def _positive(text: str) -> int:
    number = int(text)
    if not 1 <= number <= NUMBER_MAX:
        raise argparse.ArgumentTypeError(f"a number from 1 to {NUMBER_MAX}, not {number}")
    return number


def _text(text: str) -> str:
    """Return ``text`` if it is Unicode; a shell may pass any bytes."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise argparse.ArgumentTypeError(f"not Unicode text: '{safe_text(text)}'") from error
    return text


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds <= threading.TIMEOUT_MAX:
        raise argparse.ArgumentTypeError(f"a number of seconds from 0 on, not {seconds:g}")
    return seconds


def _history() -> argparse.ArgumentParser:
    history = argparse.ArgumentParser(add_help=False)
    history.add_argument(
        "--history",
        metavar="FILE",
        help="the history: a file (history.db, in the --state-dir), or a database such as "
        "postgresql://user:password@host/database or mysql://…; set the latter in TRIDENT_HISTORY, which hides the "
        "password from other users",
    )
    return history


def _add_compact_options(compact: argparse.ArgumentParser) -> None:
    compact.add_argument(
        "path", metavar="PATH", help="the directory of a FileSink, which may continue to write meanwhile"
    )
    compact.add_argument("target", metavar="TARGET", help="a new directory, which appears when it is complete")
    compact.add_argument(
        "--up-to", type=int, metavar="TXID", help="the last transaction to copy; the default is the last committed one"
    )


def _where() -> argparse.ArgumentParser:
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument(
        "--zookeeper", metavar="HOSTS", help="host:port,…/chroot; without it, the embedded server is used"
    )
    where.add_argument(
        "--zookeeper-ca",
        metavar="PEM",
        type=Path,
        help="the CA of the servers; turns TLS on. The login, user:password, is read from TRIDENT_ZOOKEEPER_AUTH",
    )
    where.add_argument(
        "--zookeeper-cert", metavar="PEM", type=Path, help="the client certificate, if the servers require one"
    )
    where.add_argument(
        "--zookeeper-key",
        metavar="PEM",
        type=Path,
        help="its private key; the password of an encrypted key is read from TRIDENT_ZOOKEEPER_KEY_PASSWORD",
    )
    where.add_argument("--root", metavar="ZNODE", help="the znode of all topologies (/trident)")
    where.add_argument(
        "--state-dir", metavar="DIRECTORY", type=Path, help="the data directory of the embedded ZooKeeper (.trident)"
    )
    return where
