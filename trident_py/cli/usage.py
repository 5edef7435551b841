"""Command lines that make no sense, and settings taken from those that do."""

from __future__ import annotations

from argparse import Namespace

from attrs import fields

from trident_py.config import TridentConfig
from trident_py.errors import ConfigError, TridentError


class UsageError(TridentError):
    """What was typed can't be carried out; exit code 2.

    Attributes:
        stands_alone: the message is complete as it is, as that of a script which names its line.
    """

    def __init__(self, message: str, *, stands_alone: bool = False) -> None:
        super().__init__(message)
        self.stands_alone = stands_alone


def config_of(arguments: Namespace, **defaults: object) -> TridentConfig:
    """The settings that the options give; what was not given is from ``defaults``, or the config's own.

    Raises:
        UsageError: one of them is out of range.
    """
    settings = dict(defaults)
    for attribute in fields(TridentConfig):
        given = getattr(arguments, attribute.name, None)
        if given is not None:
            settings[attribute.name] = given
    try:
        return TridentConfig(**settings)  # type: ignore[arg-type]  # converted and validated there
    except ConfigError as error:
        raise UsageError(str(error)) from error
