"""A value that must not be seen: it shows itself as ``***`` wherever a value is shown."""

from __future__ import annotations

from attrs import field, frozen


@frozen(repr=False)
class Secret:
    """A password or the like. Logs, tracebacks and the repr of what contains it show ``***``."""

    _value: str = field()

    def reveal(self) -> str:
        """The value itself; for the call that needs it, never for a variable that lives on."""
        return self._value

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__
