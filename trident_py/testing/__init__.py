"""For tests of topologies: without a server, from the first row to the last."""

from trident_py._lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__)
