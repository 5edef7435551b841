"""Exactly-once batch pipelines for Python on Apache Spark, coordinated the way Storm's Trident does it."""

from importlib.metadata import version

from trident_py._lazy import lazy

__version__ = version("trident-py")
__getattr__, __dir__, __all__ = lazy(__name__)
