"""The operations that users apply to rows: the interfaces, and the built-in operations."""

from trident_py._lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__)
