"""Texts from outside, made safe to store, to log and to show.

User code, rows, headers and operators may contain any text: control characters, half of a surrogate pair, a gigabyte.
An exception's ``__str__`` may raise. Such a text must never break a component that only stores, logs or shows it. So
every stored or logged text passes through this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

TEXT_BYTES_MAX = 4 * 1024
"""The maximum length of a text from outside, in bytes of UTF-8."""

_GROUP_PARTS_MAX = 3
_CHAIN_MAX = 5
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, line ends, characters that change the direction of text, and surrogates."""


class QuotedError(Exception):
    """An exception with a safe text that already names the class of the original."""


def safe_text(text: str, bytes_max: int = TEXT_BYTES_MAX) -> str:
    """Return ``text`` in one line of Unicode, with unsafe characters escaped, cut to ``bytes_max`` bytes."""
    escaped = _UNSAFE.sub(_escape, text[:bytes_max])
    raw = escaped.encode()
    if len(raw) <= bytes_max and len(text) <= bytes_max:
        return escaped
    return raw[: bytes_max - len("…".encode())].decode(errors="ignore") + "…"


def error_text(error: BaseException) -> str:
    """Return the class and the text of ``error`` as `safe_text`, even if its ``__str__`` raises."""
    if isinstance(error, QuotedError):
        return safe_text(str(error))
    said = message_of(error)
    return safe_text(f"{type(error).__name__}: {said}" if said else type(error).__name__)


def error_notes(error: BaseException) -> list[str]:
    """Return the notes of ``error``, each as `safe_text`."""
    notes = getattr(error, "__notes__", ())
    return [safe_text(note) for note in notes if isinstance(note, str)] if isinstance(notes, list | tuple) else []


def quoted(error: BaseException) -> QuotedError:
    """Return a copy of ``error`` for a log, with its frames, notes and causes; `safe_text` has changed each text."""
    copies = []
    for each in _chain(error):
        copy = QuotedError(error_text(each)).with_traceback(each.__traceback__)
        for note in error_notes(each):
            copy.add_note(note)
        copies.append(copy)
    for copy, cause in pairwise(copies):
        copy.__cause__ = cause
    return copies[0]


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and len(seen) < _CHAIN_MAX and all(following is not each for each in seen):
        seen.append(following)
        yield following
        following = following.__cause__ or (None if following.__suppress_context__ else following.__context__)


def message_of(error: BaseException) -> str:
    """Return the unchanged text of ``error``, without its class; if ``__str__`` raises, say so instead."""
    try:
        said = str(error)
    except BaseException as broken:  # noqa: BLE001 - it is user code
        return f"(its text can't be shown: __str__ raised {type(broken).__name__})"
    if isinstance(error, BaseExceptionGroup):
        parts = [error_text(part) for part in error.exceptions[:_GROUP_PARTS_MAX]]
        return f"{said}: {'; '.join(parts)}"
    return said


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    return {"\n": r"\n", "\r": r"\r", "\t": r"\t"}.get(character) or f"\\{_code(ord(character))}"


def _code(code: int) -> str:
    return f"x{code:02x}" if code < 0x100 else f"u{code:04x}"


def counted(number: int, what: str) -> str:
    """Format a number of things for people, such as ``1 row`` or ``2,000 rows``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
