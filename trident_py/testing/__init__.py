"""For tests: topologies without a server, and whether a sink, a state or a spout of yours keeps its promise."""

from trident_py._lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__)
