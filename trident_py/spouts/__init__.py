"""Sources of rows: the interfaces, and the spouts that come with the product."""

from trident_py._lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__)
