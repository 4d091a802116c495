"""Settings say at once what makes no sense, and name it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agentenvs.core.errors import ConfigError, DataError
from agentenvs.harness.openai import OpenAISettings


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"model": " "}, "needs a model"),
        ({"tools": "none"}, "tools 'none' makes no sense"),
        ({"temperature": -1}, "temperature -1 makes no sense"),
        ({"temperature": float("nan")}, "temperature nan makes no sense"),
        ({"max_tokens": 0}, "max_tokens 0 makes no sense"),
        ({"max_tokens": 1.5}, "max_tokens 1.5 makes no sense"),
        ({"seed": True}, "seed True makes no sense"),
        ({"retries": -1}, "retries -1 makes no sense"),
        ({"timeout": 0}, "a timeout is longer than 0 seconds"),
        ({"max_calls": 0}, "max_calls 0 makes no sense"),
        ({"price_in": Decimal(-1), "price_out": Decimal(1)}, "price_in"),
        ({"price_in": Decimal(1)}, "half a price is none"),
        ({"history": "last:0"}, "history 'last:0' makes no sense"),
        ({"history": "some"}, "full, or last:K"),
        ({"protocol": "gpt"}, "there is no protocol 'gpt'"),
        ({"protocol": "agentbench", "tools": "text"}, "is made of tool calls"),
        ({"examples": Path("x.json")}, "shows no examples"),
        ({"base_url": "localhost:8000"}, "is no http"),
        ({"base_url": "http://"}, "is no http"),
        ({"base_url": "http://a b:x"}, "no URL"),
        ({"extra": {"messages": []}}, "extra must not set 'messages'"),
        ({"extra": {"stream": True}}, "extra must not set 'stream'"),
    ],
)
def test_senseless_settings_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        OpenAISettings(**{"model": "m", **given})


@pytest.mark.parametrize("url", ["http://me:hush@h/v1", "http://h/v1?key=hush", "http://h/v1#hush"])
def test_a_secret_in_the_url_is_refused_unseen(url: str) -> None:
    with pytest.raises(ConfigError, match="more than scheme, host, port and path") as caught:
        OpenAISettings(model="m", base_url=url)
    assert "hush" not in str(caught.value)


def test_words_of_a_command_line_are_read() -> None:
    settings = OpenAISettings.parse(
        model="m", temperature="0.5", max_tokens="7", price_in="0.15", price_out=0.6, extra='{"a": 1}', seed=None
    )
    assert (settings.temperature, settings.max_tokens, settings.seed) == (0.5, 7, None)
    assert (settings.price_in, settings.price_out) == (Decimal("0.15"), Decimal("0.6"))
    assert settings.extra == {"a": 1}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"max_tokens": "many"}, "max_tokens 'many' makes no sense"),
        ({"price_in": "free"}, "price_in 'free' makes no sense"),
        ({"extra": "[1]"}, "it is no JSON object"),
        ({"extra": '{"a": NaN}'}, "NaN is no JSON"),
        ({"colour": "red"}, "has no setting 'colour'"),
        ({"model": None}, "needs a model"),
    ],
)
def test_words_that_mean_nothing_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        OpenAISettings.parse(**{"model": "m", **given})


def test_the_url_comes_from_the_setting_the_environment_or_is_openais(monkeypatch: pytest.MonkeyPatch) -> None:
    assert OpenAISettings(model="m").url == "https://api.openai.com/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://10.0.0.3:8000/v1/")
    assert OpenAISettings(model="m").url == "http://10.0.0.3:8000/v1"
    assert OpenAISettings(model="m", base_url="http://[::1]/v1").url == "http://[::1]/v1"


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("http://localhost/v1", "loopback"),
        ("http://127.0.0.9/v1", "loopback"),
        ("http://[::1]/v1", "loopback"),
        ("http://10.1.2.3/v1", "private"),
        ("http://gpu-box/v1", "private"),
        ("http://box.local/v1", "private"),
        ("https://api.example.com/v1", "public"),
        ("http://8.8.8.8/v1", "public"),
    ],
)
def test_the_class_of_an_address(url: str, kind: str) -> None:
    assert OpenAISettings(model="m", base_url=url).base_url_class() == kind


def test_cost_is_exact_and_rounds_once() -> None:
    settings = OpenAISettings(model="m", price_in=Decimal("0.1"), price_out=Decimal("0.3"))
    assert settings.cost(3, 4, None) == 2
    assert settings.cost(10, 10, 100) == 4
    assert settings.cost(None, 1, None) is None
    assert OpenAISettings(model="m").cost(1, 1, 0) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "cannot be read"),
        ("{", "cannot be read"),
        ("[]", "are no JSON object"),
        ('{"put": ["a", "b"]}', "have no texts for 'clean'"),
        ('{"clean": 3}', "have no texts for 'clean'"),
    ],
)
def test_examples_that_cannot_be_used_are_named(tmp_path: Path, text: str | None, says: str) -> None:
    path = tmp_path / "examples.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(DataError, match=says):
        OpenAISettings(model="m", protocol="react", examples=path)
