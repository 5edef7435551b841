"""Runs the snippets of a page of the documentation, in the order of the page; a program of its own, one page a process.

A block of Python with the name of a file (``python title="shop.py"``) is written to that file. Every other block of
Python is run, all of a page in one namespace. A block of shell is run line by line. A block after the comment
``<!-- not run: why -->`` is not run. A block after ``<!-- printed -->`` is the output of the block of Python before it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from attrs import frozen

FENCE = re.compile(
    r"^(?:<!-- (?P<note>not run: [^\n]*|printed) -->\n)?```(?P<what>[^\n]*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


@frozen
class Snippet:
    """One block of a page: its language, the file that it is, if any, its text, and what the note above it says."""

    language: str
    file: str
    text: str
    is_run: bool
    is_printed: bool


def snippets(page: Path) -> Iterator[Snippet]:
    """The blocks of a page."""
    for found in FENCE.finditer(page.read_text(encoding="utf-8")):
        language, _, title = found["what"].partition(" ")
        file = title.removeprefix('title="').removesuffix('"')
        is_printed = found["note"] == "printed"
        yield Snippet(language, file, found["text"], not found["note"], is_printed)


def run(page: Path) -> None:
    """Run the snippets of ``page`` in the current directory."""
    sys.path.insert(0, os.getcwd())
    names: dict[str, object] = {"__name__": "page"}
    printed = ""
    for number, snippet in enumerate(snippets(page)):
        if snippet.is_printed and snippet.text.strip() != printed.strip():
            raise AssertionError(f"{page.name}, block {number} is not what is printed, which is:\n{printed}")
        if not snippet.is_run:
            continue
        if snippet.file:
            Path(snippet.file).write_text(snippet.text, encoding="utf-8")
        elif snippet.language == "python":
            with redirect_stdout(StringIO()) as output:
                try:
                    exec(compile(snippet.text, f"{page.name}, block {number}", "exec"), names)  # noqa: S102
                finally:
                    printed = output.getvalue()
                    sys.stderr.write(printed)
        elif snippet.language == "sh":
            _run_shell(snippet.text)
    for test in sorted(Path.cwd().glob("test_*.py")):
        subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)], check=True)


def _run_shell(text: str) -> None:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    subprocess.run(["/bin/sh", "-eux", "-c", text], check=True, env={**os.environ, "PATH": path})


if __name__ == "__main__":
    run(Path(sys.argv[1]))
