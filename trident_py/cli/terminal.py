"""What goes to a terminal: no text from outside may move its cursor, colour it, or look like a line of ours."""

from __future__ import annotations

import json
from typing import Any


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Return ``value`` as JSON that can be read, with what can't be printed escaped."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return text if text.replace("\n", "").isprintable() else json.dumps(value, indent=indent)
