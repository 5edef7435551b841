"""Signatures of requests and answers, and nonces."""

from __future__ import annotations

import pytest

from coordinators.values.secret import Secret
from trident_py.web.signatures import Nonces, SignedHeader, Signer

ONE = Signer(Secret("a token of enough characters"))
REQUEST = ("POST", "/drpc/count", b"to", 1, "n")


def test_each_part_of_a_request_changes_its_signature() -> None:
    others = [("GET", *REQUEST[1:]), ("POST", "/drpc/sum", *REQUEST[2:]), (*REQUEST[:2], b"be", *REQUEST[3:])]
    others += [(*REQUEST[:3], 2, "n"), (*REQUEST[:4], "m")]
    signatures = {ONE.sign_request(*each) for each in [REQUEST, *others]}
    assert len(signatures) == 6
    assert Signer(Secret("another token of as many")).sign_request(*REQUEST) not in signatures


def test_each_part_of_an_answer_changes_its_signature() -> None:
    answer = ("n", 200, "1", "7", b"[]")
    others = [("m", *answer[1:]), ("n", 404, *answer[2:]), ("n", 200, "2", *answer[3:]), ("n", 200, "1", None, b"[]")]
    signatures = {ONE.sign_answer(*each) for each in [answer, *others, (*answer[:4], b"[1]")]}
    assert len(signatures) == 6


def test_a_header_comes_back_equal() -> None:
    header = SignedHeader(3, "1.aa.bb", "00")
    assert SignedHeader.of(str(header)) == header
    assert SignedHeader.of(f"tRIDENT  {str(header).partition(' ')[2]} ") == header


@pytest.mark.parametrize(
    "text", ["", "Trident", "Bearer 1:a:b", "Trident a:b:c", "Trident 1:b", f"Trident {'9' * 5000}:a:b"]
)
def test_what_is_no_header_is_seen(text: str) -> None:
    assert SignedHeader.of(text) is None


def test_a_nonce_is_spent_once_by_the_server_that_gave_it() -> None:
    nonces, nonce = Nonces(), Nonces().draw()
    assert not nonces.spend(nonce)
    nonce = nonces.draw()
    assert not nonces.spend(nonce[:-1])
    assert not nonces.spend(f"9{nonce}")
    assert nonces.spend(nonce)
    assert not nonces.spend(nonce)


@pytest.mark.parametrize("nonce", ["", ".", "..", "ü", "1.2.3", "\0", "1" * 10_000])
def test_what_is_no_nonce_is_not_spent(nonce: str) -> None:
    assert not Nonces().spend(nonce)
