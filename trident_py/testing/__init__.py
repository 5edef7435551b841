"""Helpers for tests: topologies without a server, and checks of your sinks, states and spouts."""

from trident_py._lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__)
