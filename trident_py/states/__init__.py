"""The stores of aggregates and updates: the interfaces, and the states that come with the product."""

from trident_py._lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__)
