"""Where rows go in two phases: the interface."""

from trident_py._lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__)
