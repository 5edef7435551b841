"""The windows of a stream: the four kinds for `Stream.window`."""

from trident_py._lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__)
