"""``agentenvs top``: rates from two looks at a server, its tokens, and what is said where there is none."""

from __future__ import annotations

import httpx
import pytest

from agentenvs.cli import topping
from agentenvs.cli.topping import Sight, parse, told
from agentenvs_servers.run import background
from agentenvs_servers.settings import Settings

TOKEN = "a-token-of-many-characters"


@pytest.fixture(scope="module")
def url():
    with background(["household"], Settings(tokens=(TOKEN,))) as found:
        yield found


def test_a_table_of_workers(cli, url, monkeypatch):
    monkeypatch.setenv("AGENTENVS_TOKEN", TOKEN)
    ran = cli("top", url, "--interval", "0.1", "--count", "2")
    assert ran.code == 0
    assert "turns/s" in ran.out
    assert "sessions: none" in ran.out


def test_json(cli, url, monkeypatch):
    monkeypatch.setenv("AGENTENVS_TOKEN", TOKEN)
    made = httpx.post(
        f"{url}/v1/sessions", json={"env": "household", "key": "k"}, headers={"authorization": f"Bearer {TOKEN}"}
    ).json()
    real = topping._sights

    def with_a_step_between(*given):
        looks = real(*given)
        yield next(looks)
        body = {"episode": made["episode"], "turn": 1, "action": "look"}
        headers = {"authorization": f"Bearer {TOKEN}"}
        for turn in (1, 2):
            httpx.post(f"{url}/v1/sessions/{made['session']}/step", json={**body, "turn": turn}, headers=headers)
        httpx.post(f"{url}/v1/sessions/{made['session']}/step", json={**body, "turn": 9}, headers=headers)
        yield next(looks)

    monkeypatch.setattr(topping, "_sights", with_a_step_between)
    form = cli("top", url, "--interval", "0.1", "--json").json
    (worker,) = form["workers"]
    assert worker["sessions"] == 1
    assert worker["turns_per_second"] > 0
    assert worker["p99_ms"] > 0
    assert list(form["problems_per_second"]) == ["turn_ahead"]
    assert form["sessions"] == {"agentenvs/Household-v0": 1}


def test_a_server_that_wants_a_token(cli, url):
    ran = cli("top", url)
    assert ran.code == 2
    assert "AE108 the server does not tell what it counts: 401" in ran.err
    assert "AGENTENVS_TOKEN" in ran.err


@pytest.mark.parametrize(
    ("where", "code"), [("http://127.0.0.1:9", 3), ("127.0.0.1:8000", 2), ("http://me:secret@host", 2)]
)
def test_no_server(cli, where, code):
    assert cli("top", where).code == code


def test_rates_and_quantiles():
    def sight(at, turns, fast, slow):
        return Sight(at, parse(
            f'agentenvs_turns_total{{env="a \\"b\\"",worker="0"}} {turns}\n# HELP x\n'
            f'agentenvs_step_seconds_bucket{{door="http",le="0.001",worker="0"}} {fast}\n'
            f'agentenvs_step_seconds_bucket{{door="http",le="0.1",worker="0"}} {fast + slow}\n'
            f'agentenvs_step_seconds_bucket{{door="http",le="+Inf",worker="0"}} {fast + slow}\n'
        ))  # fmt: skip

    (worker,) = told(sight(0.0, 10, 100, 0), sight(2.0, 30, 160, 40))["workers"]
    assert (worker["turns_per_second"], worker["median_ms"], worker["p99_ms"]) == (10.0, 1.0, 100.0)
    (worker,) = told(sight(0.0, 10, 0, 0), sight(2.0, 4, 0, 0))["workers"]
    assert (worker["turns_per_second"], worker["median_ms"]) == (0.0, None)
    assert sight(0.0, 1, 0, 0).by("agentenvs_turns_total", "env") == {'a "b"': 1}
