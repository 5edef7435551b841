"""Signatures of requests and answers: each side shows that it has the token, and neither sends it."""

from __future__ import annotations

import hmac
import secrets
import time
from hashlib import sha256

from attrs import define, field, frozen

from coordinators.values.secret import Secret

SCHEME = "Trident"
"""In ``Authorization``, before ``EPOCH:NONCE:SIGNATURE``."""

SIGNATURE = "Trident-Signature"
"""The header of an answer that has its signature."""

NONCE_SECONDS = 60
"""For which a nonce may be used."""


@frozen
class Signer:
    """Signs requests and answers with the token as the key of an HMAC by SHA-256."""

    token: Secret

    def sign_request(self, method: str, path: str, body: bytes, epoch: int, nonce: str) -> str:
        """Return the signature of a request to the leader of ``epoch``."""
        return self._sign("request", method, path, sha256(body).hexdigest(), str(epoch), nonce)

    def sign_answer(self, nonce: str, status: int, epoch: str | None, txid: str | None, body: bytes) -> str:
        """Return the signature of the answer to the request that had ``nonce``; the others are headers, if there."""
        return self._sign("answer", nonce, str(status), epoch or "", txid or "", sha256(body).hexdigest())

    def _sign(self, *parts: str) -> str:
        return hmac.new(self.token.reveal().encode(), "\n".join(parts).encode(), sha256).hexdigest()


@frozen
class SignedHeader:
    """What the header ``Authorization`` of a signed request says."""

    epoch: int
    nonce: str
    signature: str

    @classmethod
    def of(cls, value: str) -> SignedHeader | None:
        """Return it by its text; None: it is something else."""
        scheme, _, given = value.partition(" ")
        epoch, *rest = given.strip().split(":")
        if scheme.lower() != SCHEME.lower() or len(rest) != 2 or not (epoch.isascii() and epoch.isdigit()):
            return None
        return cls(int(epoch), *rest) if len(epoch) < 20 else None

    def __str__(self) -> str:
        return f"{SCHEME} {self.epoch}:{self.nonce}:{self.signature}"


@define(eq=False)
class Nonces:
    """Makes nonces, each of which may be used once, and soon. Only those that were used are kept."""

    _key: bytes = field(factory=lambda: secrets.token_bytes(32))
    _used: dict[str, float] = field(factory=dict)

    def draw(self) -> str:
        """Return a new one."""
        text = f"{int(time.monotonic()) + NONCE_SECONDS}.{secrets.token_hex(16)}"
        return f"{text}.{self._mark(text)}"

    def spend(self, nonce: str) -> bool:
        """Tell whether ``nonce`` is one of ours that may be used; it can't be used again."""
        text, _, mark = nonce.rpartition(".")
        if not hmac.compare_digest(mark.encode(), self._mark(text).encode()):
            return False
        now = time.monotonic()
        for old in [used for used, until in self._used.items() if until < now]:
            del self._used[old]
        until = float(text.partition(".")[0])
        if until < now or nonce in self._used:
            return False
        self._used[nonce] = until
        return True

    def _mark(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), sha256).hexdigest()
