"""The token of a page: a client with the token sees rows, and may control the topology."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from coordinators.values.secret import Secret
from trident_py.errors import ConfigError

VARIABLE = "TRIDENT_TOKEN"
"""The environment variable of the token, for processes on several machines; other users can't read it."""

TOKEN_BYTES = 24
CHARS_MIN = 16
"""The shortest token; a shorter one could be guessed."""


def token_at(state_dir: Path) -> Secret:
    """Return the token in the environment, or else the one in a file of ``state_dir``, which only its owner can read.

    If the file doesn't exist, it is made.

    Raises:
        ConfigError: the variable is too short, or the file can't be made or read.
    """
    if given := os.environ.get(VARIABLE):
        if len(given) < CHARS_MIN:
            raise ConfigError(f"{VARIABLE} has fewer than {CHARS_MIN} characters, which could be guessed")
        return Secret(given)
    path = state_dir / "token"
    try:
        if not path.exists():
            _make(path)
        return Secret(path.read_text().strip())
    except OSError as error:
        raise ConfigError(f"the token of the page can't be kept in {path}: {error.strerror}") from error


def _make(path: Path) -> None:
    """Make the file in one step: another process may do the same at this moment, and the first token counts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}-{secrets.token_hex(8)}")
    with open(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(f"{secrets.token_urlsafe(TOKEN_BYTES)}\n")
    try:
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
