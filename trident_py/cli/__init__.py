"""The ``trident`` command."""

from trident_py.cli.app import main

__all__ = ["main"]
