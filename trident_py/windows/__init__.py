"""Windows over a stream: the four kinds that `Stream.window` takes."""

from trident_py._lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__)
