"""A receipt is believed where its key is trusted and nothing of it was touched; else it is refused with a reason."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pytest

from agentenvs.core.canon import canonical_bytes
from agentenvs.core.errors import ConfigError, DataError
from agentenvs.leaderboard import receipts
from agentenvs.leaderboard.hosting.results import HostedEpisode, HostedResult
from agentenvs.leaderboard.receipts import REASONS, ReceiptError, Signer, check, trusted

NOW = 1_900_000_000.0
RECORD = "ab" * 32

RESULT = HostedResult(
    ticket="tk-1",
    board="spring",
    contestant="ada",
    agent="planner",
    attempt=1,
    env="agentenvs/Household-v0",
    release="1",
    spec="cd" * 32,
    version="0.1.0",
    options={"limit": 6},
    split="sealed",
    secret="ef" * 16,
    commitment="01" * 32,
    episodes=(
        HostedEpisode(1, "shared", "terminated", 4, True, 1.0, RECORD),
        HostedEpisode(0, "own", "truncated", 6, False, 0.1, RECORD),
        HostedEpisode(0, "shared", None, 0, False, 0.0, None),
    ),
)


@pytest.fixture
def signer(tmp_path):
    return Signer.of(tmp_path / "signing.key")


def believed(data, signer, board="spring", now=NOW, **more):
    return check(data, trusted(signer.public.hex()), board, now, **more)


def reason(data, signer, *arguments, **more):
    with pytest.raises(ReceiptError) as caught:
        believed(data, signer, *arguments, **more)
    assert REASONS[caught.value.reason] in caught.value.what
    assert pickle.loads(pickle.dumps(caught.value)).reason == caught.value.reason
    return caught.value.reason


def altered(data, change):
    """Return a receipt in which somebody changed something, in canonical form."""
    form = json.loads(data)
    change(form)
    return canonical_bytes(form)


def test_it_says_what_was_signed_with_exact_numbers(signer):
    data = signer.sign(RESULT, NOW)
    found = believed(data, signer)
    assert (found.result, found.signer, found.issued) == (RESULT, signer.id, int(NOW))
    said = json.loads(data)["receipt"]
    assert said["score"]["successes"] == 1
    assert said["score"]["reward"] == [RESULT.reward.numerator, RESULT.reward.denominator]
    assert not [one for one in said["result"]["episodes"] if isinstance(one["reward"], float)]
    assert believed(signer.sign(RESULT, NOW), signer).nonce != found.nonce


def test_a_board_that_has_not_the_secret_can_check_it(signer, monkeypatch):
    monkeypatch.delenv("AGENTENVS_SEALED_SECRET", raising=False)
    assert believed(signer.sign(RESULT, NOW), signer).result.successes == 1


def test_an_old_one_is_refused(signer):
    data = signer.sign(RESULT, NOW, 60)
    nonce = believed(data, signer).nonce
    assert reason(data, signer, now=NOW + 60) == "expired"
    assert reason(data, signer, now=NOW - 3600) == "expired"
    assert reason(data, signer, used={nonce}) == "used"
    assert reason(data, signer, latest={"tk-1": int(NOW) + 1}) == "superseded"
    assert believed(data, signer, used={"another"}, latest={"tk-1": int(NOW)}).nonce == nonce


def test_one_of_another_board_or_an_unknown_key_is_refused(signer, tmp_path):
    data = signer.sign(RESULT, NOW)
    assert reason(data, signer, board="autumn") == "other-board"
    assert reason(data, Signer.of(tmp_path / "other.key")) == "unknown-key"
    stolen = altered(data, lambda form: form["receipt"].update(signer=Signer.of(tmp_path / "other.key").id))
    assert reason(stolen, Signer.of(tmp_path / "other.key")) == "altered"


@pytest.mark.parametrize(
    "change",
    [
        lambda said: said["result"].update(contestant="eve"),
        lambda said: said["result"].update(board="autumn"),
        lambda said: said["result"]["episodes"][1].update(success=True, reward="1"),
        lambda said: said["result"]["episodes"].pop(),
        lambda said: said["score"].update(successes=3),
        lambda said: said.update(expires=said["expires"] + 1),
        lambda said: said.update(nonce="0" * 32),
    ],
)
def test_whatever_was_altered_is_refused(signer, change):
    data = altered(signer.sign(RESULT, NOW), lambda form: change(form["receipt"]))
    assert reason(data, signer) == "altered"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b'{"receipt": {}, "signature": ""}',
        b'{"receipt":1,"signature":"00"}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"receipt":NaN,"signature":"00"}',
    ],
)
def test_what_is_none_is_refused(signer, data):
    assert reason(data, signer) == "form"


def test_another_spelling_or_a_surplus_is_refused(signer, monkeypatch):
    data = signer.sign(RESULT, NOW)
    assert reason(json.dumps(json.loads(data)).encode(), signer) == "form"
    assert reason(altered(data, lambda form: form.update(more=1)), signer) == "form"
    assert reason(altered(data, lambda form: form["receipt"].update(more=1)), signer) == "form"
    assert reason(altered(data, lambda form: form["receipt"].update(kind="other")), signer) == "form"
    monkeypatch.setattr(receipts, "MOST_BYTES", 100)
    assert reason(data, signer) == "form"


def signed(signer, change):
    """Return a receipt that a trusted host signed, and that makes no sense."""
    form = json.loads(signer.sign(RESULT, NOW))
    change(form["receipt"])
    said = form["receipt"]
    return canonical_bytes({"receipt": said, "signature": signer._key.sign(canonical_bytes(said)).hex()})


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda said: said["score"].update(successes=2), "sum"),
        (lambda said: said["score"].update(reward=[1, 1]), "sum"),
        (lambda said: said.update(manifest="00"), "sum"),
        (lambda said: said.update(issued=1.5), "form"),
        (lambda said: said["result"]["episodes"][2].update(success=True), "form"),
        (lambda said: said["result"]["episodes"][0].update(reward="1/3"), "form"),
        (lambda said: said["result"]["episodes"][0].update(reward="1/0"), "form"),
        (lambda said: said["result"]["episodes"][0].update(place=-1), "form"),
        (lambda said: said["result"]["episodes"][0].update(panel="public"), "form"),
        (lambda said: said["result"]["episodes"][0].update(record="x"), "form"),
        (lambda said: said["result"].update(attempt=True), "form"),
        (lambda said: said["result"].update(contestant="x" * 201), "form"),
        (lambda said: said["result"].pop("spec"), "form"),
    ],
)
def test_nonsense_is_refused_whoever_signed_it(signer, change, why):
    assert reason(signed(signer, change), signer) == why


def test_the_manifest_is_of_the_terms_and_not_of_the_outcome():
    worse = replace(RESULT, episodes=(replace(RESULT.episodes[0], success=False, reward=0.0), *RESULT.episodes[1:]))
    assert receipts.manifest_digest(worse) == receipts.manifest_digest(RESULT)
    assert receipts.manifest_digest(replace(RESULT, contestant="eve")) != receipts.manifest_digest(RESULT)


def test_a_key_is_made_once_and_kept_for_its_owner(tmp_path):
    path = tmp_path / "keys" / "signing.key"
    first = Signer.of(path)
    assert Signer.of(path).id == first.id
    assert path.stat().st_mode & 0o077 == 0
    path.write_text("no key")
    with pytest.raises(DataError, match="holds no signing key") as caught:
        Signer.of(path)
    assert "no key" not in caught.value.why
    with pytest.raises(ConfigError, match="a trusted key is none"):
        trusted("abc")
