"""Where rows go in two phases: the interface, and the sinks that are shipped."""

from trident_py._lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__)
