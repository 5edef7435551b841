"""Errors of command lines, and the conversion of options to settings."""

from __future__ import annotations

import os
from argparse import Namespace

from attrs import fields

from coordinators.backends.zookeeper.access import ZooKeeperTLS
from trident_py.errors import ConfigError, TridentError
from trident_py.interfaces.config import TridentConfig

LOGIN, KEY_PASSWORD = "TRIDENT_ZOOKEEPER_AUTH", "TRIDENT_ZOOKEEPER_KEY_PASSWORD"
HISTORY = "TRIDENT_HISTORY"
"""Names of environment variables: every user of the machine can read command-line options."""


class UsageError(TridentError):
    """A command line that can't be carried out; exit code 2.

    Attributes:
        stands_alone: the message is complete without a prefix, as that of a script, which names its line.
    """

    def __init__(self, message: str, *, stands_alone: bool = False) -> None:
        super().__init__(message)
        self.stands_alone = stands_alone


class RunError(Exception):
    """Marks an error of ``trident run`` that is not a `TridentError`; the error is its cause."""


def config_of(arguments: Namespace, **defaults: object) -> TridentConfig:
    """Return the settings of the options; a missing option is taken from ``defaults``, or is the config's own default.

    Raises:
        UsageError: one of them is out of range.
    """
    settings = dict(defaults)
    for attribute in fields(TridentConfig):
        given = getattr(arguments, attribute.name, None)
        if given is not None:
            settings[attribute.name] = given
    try:
        if "zookeeper" in settings:
            settings["zookeeper_auth"] = os.environ.get(LOGIN) or None
        if "history" not in settings and os.environ.get(HISTORY):
            settings["history"] = os.environ[HISTORY]
        settings["zookeeper_tls"] = _tls_of(arguments)
        return TridentConfig(**settings)  # type: ignore[arg-type]  # converted and validated there
    except ConfigError as error:
        raise UsageError(str(error)) from error


def _tls_of(arguments: Namespace) -> ZooKeeperTLS | None:
    ca_file, cert_file, key_file = (getattr(arguments, f"zookeeper_{what}", None) for what in ("ca", "cert", "key"))
    if ca_file is None and (cert_file is not None or key_file is not None):
        raise UsageError("--zookeeper-cert and --zookeeper-key are for TLS; --zookeeper-ca switches it on")
    if ca_file is None:
        return None
    password = os.environ.get(KEY_PASSWORD) or None
    return ZooKeeperTLS(ca_file=ca_file, cert_file=cert_file, key_file=key_file, key_password=password)
