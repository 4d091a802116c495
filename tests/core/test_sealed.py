"""The operator's secret: read from one variable, refused where it is weak, told to nobody."""

from __future__ import annotations

import pytest

from agentenvs.core.errors import ConfigError
from agentenvs.core.sealed import VARIABLE, sealed_scenario_key, sealed_secret
from agentenvs.core.streams import scenario_key, sealed_key


def test_a_secret_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, " " + "0aF1" * 8 + "\n")
    assert sealed_secret() == bytes.fromhex("0af1" * 8)
    assert sealed_scenario_key("household", 3) == sealed_key(sealed_secret(), "household", 3)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "is not set"),
        ("", "is not set"),
        ("ab" * 15, "it has 120 bits"),
        ("correct horse battery staple", "is not hexadecimal"),
        ("abc" * 11, "is not hexadecimal"),
        ("٣٤" * 16, "is not hexadecimal"),
    ],
)
def test_a_weak_secret_is_refused_and_not_repeated(monkeypatch: pytest.MonkeyPatch, text: str | None, why: str) -> None:
    if text is None:
        monkeypatch.delenv(VARIABLE, raising=False)
    else:
        monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(ConfigError) as caught:
        sealed_secret()
    assert why in str(caught.value)
    assert VARIABLE in str(caught.value)
    assert not text or text not in str(caught.value)


def test_sealed_keys_are_not_among_a_million_that_anybody_can_make(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "00112233445566778899aabbccddeeff")
    keys = {sealed_scenario_key("household", index) for index in range(500)}
    assert len(keys) == 500
    for number in range(2**18):
        made = (
            scenario_key("household", "sealed", number),
            scenario_key("household", "train", number),
            sealed_key(number.to_bytes(16, "big"), "household", number % 500),
            sealed_key(str(number).encode(), "household", number % 500),
        )
        assert keys.isdisjoint(made)
