"""The identity of a part of a topology, with which the next version of the program is compared."""

from __future__ import annotations

from collections.abc import Mapping

from coordinators.values.canonical import Json


class Identified:
    """A spout, state factory or sink that is compared when a topology starts again.

    The name of its class is always compared, without the module. A derived class counts as the same. If more must be
    compared, override these methods. Facts are short texts: no addresses, secrets, limits or options.
    """

    def identity(self) -> Mapping[str, Json]:
        """Return the facts that must not change, by name; if one has changed, the start is refused."""
        return {}

    def details(self) -> Mapping[str, Json]:
        """Return the facts that may change, by name; if one has changed, the start continues and logs the change."""
        return {}


def class_names(thing: object) -> Json:
    """Return the name of the class of ``thing``, then the names of its bases, except for the interfaces."""
    own, *bases = type(thing).__mro__
    named = [base.__name__ for base in bases if not base.__module__.startswith(_GENERAL)]
    return [own.__name__, *named]


_GENERAL = ("abc", "builtins", "typing", "trident_py.interfaces")
