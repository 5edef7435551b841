"""How to be let in by ZooKeeper: what is refused where it is given, and what doesn't show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coordinators.backends.zookeeper.access import ANONYMOUS, ZooKeeperAccess, ZooKeeperTLS
from coordinators.values.errors import ConfigError
from coordinators.values.secret import Secret
from tests.servers.certificates import Authority


def test_a_secret_shows_itself_to_those_who_ask() -> None:
    secret = Secret("hush")
    assert secret.reveal() == "hush"
    assert (repr(secret), str(secret), f"{secret}", f"{[secret]}") == ("***", "***", "***", "[***]")
    assert secret == Secret("hush")
    assert secret != Secret("other")


@pytest.mark.parametrize("login", ["anna", "anna:", ":hush", "", ":"])
def test_a_login_is_a_user_and_a_password_and_is_not_shown_if_it_is_not(login: str) -> None:
    with pytest.raises(ConfigError, match="must be 'user:password'") as refused:
        ZooKeeperAccess(login=login)
    assert "hush" not in str(refused.value)
    assert "anna" not in str(refused.value)


def test_a_password_may_have_colons() -> None:
    access = ZooKeeperAccess(login=Secret("anna:h:u:sh"))
    assert access.login is not None
    assert access.login.reveal() == "anna:h:u:sh"


@pytest.mark.parametrize("half", [{"cert_file": "c.pem"}, {"key_file": "k.pem"}])
def test_a_certificate_and_its_key_go_together(half: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="its private key go together"):
        ZooKeeperTLS(ca_file="ca.pem", **half)


def test_who_has_an_identity() -> None:
    tls = ZooKeeperTLS(ca_file="ca.pem")
    ours = ZooKeeperTLS(ca_file="ca.pem", cert_file="c.pem", key_file="k.pem")
    identities = [ZooKeeperAccess(login="a:b"), ZooKeeperAccess(tls=ours), ZooKeeperAccess(login="a:b", tls=ours)]
    assert [access.has_identity for access in identities] == [True] * 3
    assert [access.has_identity for access in (ANONYMOUS, ZooKeeperAccess(tls=tls))] == [False] * 2
    assert ANONYMOUS.acl_bytes == 0 < identities[0].acl_bytes < identities[1].acl_bytes < identities[2].acl_bytes


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.named("authority", tmp_path)


def _with_wrong_password(authority: Authority) -> ZooKeeperTLS:
    made = authority.vouch("client", password="right")  # noqa: S106
    return ZooKeeperTLS(ca_file=authority.own.cert, cert_file=made.cert, key_file=made.key, key_password="hush")  # noqa: S106


def _without_password(authority: Authority) -> ZooKeeperTLS:
    made = authority.vouch("client", password="right")  # noqa: S106
    return ZooKeeperTLS(ca_file=authority.own.cert, cert_file=made.cert, key_file=made.key)


def _with_anothers_key(authority: Authority) -> ZooKeeperTLS:
    return ZooKeeperTLS(
        ca_file=authority.own.cert, cert_file=authority.vouch("client").cert, key_file=authority.own.key
    )


def _without_authorities(authority: Authority) -> ZooKeeperTLS:
    return ZooKeeperTLS(ca_file=authority.directory / "none.pem")


def _with_a_key_for_authorities(authority: Authority) -> ZooKeeperTLS:
    return ZooKeeperTLS(ca_file=authority.own.key)


@pytest.mark.parametrize(
    "broken",
    [
        _with_wrong_password,
        _without_password,
        _with_anothers_key,
        _without_authorities,
        _with_a_key_for_authorities,
    ],
)
def test_files_that_are_no_use_are_named_with_the_way_out(
    authority: Authority, broken: Callable[[Authority], ZooKeeperTLS]
) -> None:
    tls = broken(authority)
    with pytest.raises(
        ConfigError, match=r"no TLS with ZooKeeper: .* can't be used \(.+\); they must be PEM"
    ) as refused:
        tls.ensure_usable()
    assert str(tls.ca_file) in str(refused.value)
    assert "hush" not in f"{refused.value} {tls}"


def test_files_that_fit_are_usable(authority: Authority) -> None:
    for password in (None, "right"):
        made = authority.vouch("client", password=password)
        ca_file = authority.own.cert
        tls = ZooKeeperTLS(ca_file=ca_file, cert_file=made.cert, key_file=made.key, key_password=password)
        tls.ensure_usable()
