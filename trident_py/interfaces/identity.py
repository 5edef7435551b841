"""What a part of a topology says of itself, so that the next version of the program can be compared with this one."""

from __future__ import annotations

from collections.abc import Mapping

from coordinators.values.canonical import Json


class Identified:
    """A spout, state factory or sink: what a topology is compared by when it starts again.

    Its class is compared always: by its name, without the module, and one that is derived from it counts as the same.
    Whoever has to say more overrides these. Facts are short texts: no addresses, secrets, limits or options.
    """

    def identity(self) -> Mapping[str, Json]:
        """Return, by word, what it can't change without being another one; a start that finds it changed is refused."""
        return {}

    def details(self) -> Mapping[str, Json]:
        """Return, by word, what it may change; a start that finds it changed goes on and says so."""
        return {}


def class_names(thing: object) -> Json:
    """Return the name of the class of ``thing``, then those of its bases, but for the interfaces."""
    own, *bases = type(thing).__mro__
    named = [base.__name__ for base in bases if not base.__module__.startswith(_GENERAL)]
    return [own.__name__, *named]


_GENERAL = ("abc", "builtins", "typing", "trident_py.interfaces")
