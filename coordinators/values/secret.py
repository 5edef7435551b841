"""Secrets: passwords and texts that contain one, kept out of all output."""

from __future__ import annotations

from attrs import frozen

HIDDEN = "***"


@frozen(repr=False, str=False)
class Secret:
    """A text that shows as ``***`` wherever it is printed, logged or formatted; `reveal` returns it."""

    _value: str

    def reveal(self) -> str:
        """Return the text itself, for the one call that needs it."""
        return self._value

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__


def as_secret(value: str | Secret) -> Secret:
    """Return ``value`` as a secret; one that is a secret already stays as it is."""
    return value if isinstance(value, Secret) else Secret(str(value))
