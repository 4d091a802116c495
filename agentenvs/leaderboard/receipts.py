"""Signed receipts of hosted runs: what a board can believe that has not the secret.

A receipt is canonical JSON: what came of a ticket (:mod:`~agentenvs.leaderboard.hosting.results`), with every number
whole or a fraction, and an Ed25519 signature of the host over it. It proves that whoever holds the signing key played
these records again and found these numbers; a board that trusts the key need not know the scenarios. It does not prove
who acted.

A receipt is refused with a reason, one of :data:`REASONS`.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agentenvs.core.canon import JSON, canonical_bytes, digest
from agentenvs.core.errors import AgentEnvsError, ConfigError, DataError, missing_extra
from agentenvs.leaderboard.hosting.epoch import write_private
from agentenvs.leaderboard.hosting.results import HostedResult

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KIND: Final = "agentenvs/hosted-run/1"

MOST_BYTES: Final = 8 * 2**20

VALID_SECONDS: Final = 90 * 86_400
"""How long a receipt is good for being entered, where its signer says nothing else."""

REASONS: Final = {
    "form": "it has no form that is known",
    "unknown-key": "it is signed by a key that this board does not trust",
    "altered": "it was altered after it was signed",
    "other-board": "it is of another board",
    "expired": "its time is over",
    "used": "it was used before",
    "superseded": "a later one of the same ticket is known",
    "sum": "its sums are not those of its episodes",
}

_HEX = re.compile(r"(?:[0-9a-f]{2})+")
_FIELDS = ("expires", "issued", "kind", "manifest", "nonce", "result", "score", "signer")


class ReceiptError(DataError):
    """A receipt is refused.

    Args:
        reason: One of :data:`REASONS`.
        why: What is so in this case.
    """

    def __init__(self, reason: str, why: str = "") -> None:
        super().__init__(f"the receipt is refused: {REASONS[reason]}", why=why, fix="ask its host for another")
        self.reason = reason

    def __reduce__(self) -> tuple[object, ...]:
        return (ReceiptError, (self.reason, self.why))


@dataclass(frozen=True, slots=True)
class Receipt:
    """A receipt that was found to be good."""

    result: HostedResult
    signer: str
    """Id of the key."""
    nonce: str
    """Another one for each receipt."""
    issued: int
    """Seconds of the civil clock."""
    expires: int
    manifest: str
    """Digest of the terms of the run; see :func:`manifest_digest`."""


class Signer:
    """Holds a signing key.

    Args:
        key: The key.
    """

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @classmethod
    def of(cls, path: Path) -> Signer:
        """Return the signer of a key file, which is made where there is none.

        Raises:
            DataError: The file cannot be read or written, or holds no key.
            MissingExtraError: The package is not installed.
        """
        private = _keys()
        try:
            seed = bytes.fromhex(path.read_text(encoding="ascii").strip())
            return cls(private.from_private_bytes(seed))
        except FileNotFoundError:
            key = private.generate()
            write_private(path, key.private_bytes_raw().hex().encode() + b"\n")
            return cls(key)
        except (OSError, ValueError) as error:
            raise DataError(f"{path} holds no signing key", why=type(error).__name__) from error

    @property
    def public(self) -> bytes:
        """The public key: 32 bytes."""
        return self._key.public_key().public_bytes_raw()

    @property
    def id(self) -> str:
        """Name of the key."""
        return key_id(self.public)

    def sign(self, result: HostedResult, now: float, seconds: int = VALID_SECONDS) -> bytes:
        """Return the receipt of what came of a ticket.

        Args:
            result: What was found by playing every record again.
            now: The civil clock.
            seconds: How long it is good for being entered.
        """
        said: dict[str, JSON] = {
            "kind": KIND,
            "result": result.to_json(),
            "score": _score(result),
            "manifest": manifest_digest(result),
            "nonce": secrets.token_hex(16),
            "issued": int(now),
            "expires": int(now) + seconds,
            "signer": self.id,
        }
        signature = self._key.sign(canonical_bytes(said))
        return canonical_bytes({"receipt": said, "signature": signature.hex()}) + b"\n"


def key_id(public: bytes) -> str:
    """Return the name of a public key: the beginning of its SHA-256."""
    return hashlib.sha256(public).hexdigest()[:32]


def trusted(*keys: str) -> dict[str, bytes]:
    """Return public keys, given in hexadecimal digits, by name.

    Raises:
        ConfigError: One is none.
    """
    found = {}
    for key in keys:
        if not _HEX.fullmatch(key.strip().lower()) or len(key.strip()) != 64:
            raise ConfigError("a trusted key is none", fix="give the 64 hexadecimal digits that its host publishes")
        public = bytes.fromhex(key.strip())
        found[key_id(public)] = public
    return found


def manifest_digest(result: HostedResult) -> str:
    """Return the digest of what a run was about, without what came of it: who played what, under which promise."""
    terms = {name: value for name, value in result.to_json().items() if name != "episodes"}
    return digest({**terms, "panels": [[one.panel, one.place] for one in result.episodes]})


def check(
    data: bytes,
    keys: Mapping[str, bytes],
    board: str,
    now: float,
    used: Container[str] = (),
    latest: Mapping[str, int] | None = None,
) -> Receipt:
    """Return what a receipt says, where it can be believed.

    Args:
        data: The receipt.
        keys: Public keys that the board trusts, by name; see :func:`trusted`.
        board: Id of the board it is to be entered on.
        now: The civil clock.
        used: Nonces of receipts that were entered before.
        latest: When the latest receipt known of a ticket was issued, by the ticket's name.

    Raises:
        ReceiptError: It cannot; see :data:`REASONS`.
        MissingExtraError: The package is not installed.
    """
    said, signature = _parsed(data)
    public = keys.get(said["signer"])
    if public is None:
        raise ReceiptError("unknown-key", f"its key is {said['signer']}")
    if not _is_signed(said, signature, public):
        raise ReceiptError("altered", "the signature is not that of what it says")
    found = _read(said)
    if found.result.board != board:
        raise ReceiptError("other-board", f"it is of {found.result.board}")
    if not found.issued <= now + 300 or now >= found.expires:
        raise ReceiptError("expired", "it is good from the time it was issued to the time it expires")
    if found.nonce in used:
        raise ReceiptError("used", f"its number is {found.nonce}")
    if (latest or {}).get(found.result.ticket, 0) > found.issued:
        raise ReceiptError("superseded", f"of the ticket {found.result.ticket}")
    return found


def _parsed(data: bytes) -> tuple[dict[str, Any], bytes]:
    if len(data) > MOST_BYTES:
        raise ReceiptError("form", f"it has more than {MOST_BYTES} bytes")
    try:
        form = json.loads(data)
        if canonical_bytes(form) != data.strip():
            raise ReceiptError("form", "it is not in canonical JSON")
        said, signature = form["receipt"], form["signature"]
        if set(form) != {"receipt", "signature"} or sorted(said) != sorted(_FIELDS) or said["kind"] != KIND:
            raise ReceiptError("form", "its fields are others")
        if not isinstance(said["signer"], str) or not _HEX.fullmatch(signature):
            raise ReceiptError("form", "signer or signature")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ReceiptError("form", type(error).__name__) from error
    except ReceiptError:
        raise
    except AgentEnvsError as error:
        raise ReceiptError("form", error.what) from error
    return said, bytes.fromhex(signature)


def _read(said: Mapping[str, Any]) -> Receipt:
    try:
        result = HostedResult.from_json(said["result"])
    except DataError as error:
        raise ReceiptError("form", error.why) from error
    numbers, texts = (said["issued"], said["expires"]), (said["nonce"], said["manifest"])
    if not all(type(number) is int for number in numbers) or not all(isinstance(text, str) for text in texts):
        raise ReceiptError("form", "a time or a number is none")
    if said["score"] != _score(result) or said["manifest"] != manifest_digest(result):
        raise ReceiptError("sum")
    return Receipt(result, said["signer"], said["nonce"], said["issued"], said["expires"], said["manifest"])


def _score(result: HostedResult) -> dict[str, JSON]:
    reward = result.reward
    return {
        "episodes": len(result.episodes),
        "unopened": result.unopened,
        "successes": result.successes,
        "reward": [reward.numerator, reward.denominator],
    }


def _is_signed(said: Mapping[str, JSON], signature: bytes, public: bytes) -> bool:
    _keys()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, canonical_bytes(dict(said)))
    except (InvalidSignature, ValueError):
        return False
    return True


def _keys() -> type[Ed25519PrivateKey]:
    """Return what makes keys.

    Raises:
        MissingExtraError: The package is not installed.
    """
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError as error:
        raise missing_extra("a signed receipt", "cryptography", "leaderboard") from error
    return Ed25519PrivateKey
