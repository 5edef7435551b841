"""Safe output to a terminal: text from outside can't move the cursor, set colours, or look like a line of ours."""

from __future__ import annotations

import json
import traceback
from typing import TYPE_CHECKING, Any

from coordinators.values.error_text import QuotedError, error_text, message_of, quoted, safe_text
from coordinators.values.errors import TridentError

if TYPE_CHECKING:
    from rich.text import Text

LINES_MAX = 200
QUOTE = f"{QuotedError.__module__}.{QuotedError.__qualname__}: "


def safe_lines(text: str) -> str:
    """Return ``text`` with our line ends, with each line as from `safe_text`, and a limited number of lines."""
    lines = text.split("\n", LINES_MAX)
    return "\n".join(map(safe_text, lines[:LINES_MAX])) + ("\n…" if len(lines) > LINES_MAX else "")


def cell(text: str) -> Text:
    """Return ``text`` as a Rich text without markup."""
    from rich.text import Text  # most commands don't need Rich

    return Text(safe_lines(text))


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Return ``value`` as readable JSON, with unprintable characters escaped."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return text if text.replace("\n", "").isprintable() else json.dumps(value, indent=indent)


def failure_text(error: BaseException) -> str:
    """Return the text of ``error``: the message of a `TridentError`, the class and text of any other error."""
    return safe_lines(message_of(error)) if isinstance(error, TridentError) else error_text(error)


def traceback_text(error: BaseException) -> str:
    """Return the traceback of ``error``, made safe for a terminal."""
    lines = "".join(traceback.format_exception(quoted(error))).rstrip("\n").replace(QUOTE, "").split("\n")
    return "\n".join(map(safe_text, lines))
