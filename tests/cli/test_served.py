"""``--url``: the same verbs, with the world on a server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.client.servers import serving


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving("household") as found:
        yield found


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENTENVS_TOKEN", raising=False)


def test_eval_leaves_the_folder_that_it_leaves_here(cli: Any, tmp_path: Any, url: str) -> None:
    args = ("eval", "household", "--policy", "expert", "--episodes", "3", "--concurrency", "2", "-o", "limit=60")
    assert cli(*args, "--out", "here").code == 0
    ran = cli(*args, "--out", "there", "--url", url)
    assert ran.code == 0, ran.err
    assert cli("replay", "there").code == 0
    for name in ("summary.json", "records/000002.jsonl"):
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "there" / name).read_bytes()
    assert json.loads((tmp_path / "there/manifest.json").read_text())["harness"]["server"]["url_class"] == "loopback"
    ran = cli("compare", "here", "there", "--json")
    assert ran.json["scenarios"] == 3


def test_what_to_do_next_names_the_server(cli: Any, url: str) -> None:
    ran = cli("eval", "household", "--policy", "noop", "--episodes", "1", "--out", "r", "--url", url, "-o", "limit=3")
    (line,) = [line for line in ran.err.splitlines() if "agentenvs play" in line]
    command = line.partition("agentenvs ")[2].split()
    assert command[-2:] == ["--url", url]
    assert cli(*command).code == 0
    assert "agentenvs replay r\n" in ran.err


def test_dry_runs_and_streams_ask_the_server(cli: Any, url: str) -> None:
    ran = cli("eval", "household", "--policy", "oracle", "--url", url, "--split", "builtin", "--dry-run", "--json")
    assert (ran.json["episodes"], ran.json["budgets"]) == (12, {"steps": 50})
    stream = ("--stream", "split", "--split", "builtin", "--dry-run", "--json")
    assert cli("eval", "household", "--policy", "noop", "--url", url, *stream).json["last"] == 11


def test_play_speaks_the_same(cli: Any, tmp_path: Any, url: str) -> None:
    typed = 'look\n:admissible\n:undo\n{"tool": "inventory", "arguments": {}}\nnonsense\n'
    args = ("play", "household", "--split", "builtin", "--index", "4", "-o", "admissible=true", "--record")
    here = cli(*args, "here.jsonl", stdin=typed)
    there = cli(*args, "there.jsonl", "--url", url, stdin=typed)
    assert (there.code, there.out) == (here.code, here.out)
    assert (tmp_path / "here.jsonl").read_bytes() == (tmp_path / "there.jsonl").read_bytes()


def test_info_shows_what_the_server_says(cli: Any, url: str) -> None:
    here, there = cli("info", "household", "--json").json, cli("info", "household", "--url", url, "--json").json
    assert (there.pop("players"), there.pop("entry_point")) == ({}, "")
    assert there == {name: here[name] for name in there}
    assert f"Play it: agentenvs play household --url {url}" in cli("info", "household", "--url", url).err


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("play", "household", "--data", "."), 2, "AE103 --data has no effect here"),
        (("eval", "household", "--policy", "noop", "--data", "."), 2, "AE103 the option 'data' has no effect here"),
        (("play", "webshop"), 2, "AE101 this server hosts: household"),
        (("play", "household", "--split", "nowhere"), 2, "AE102 agentenvs/Household-v0 has no split 'nowhere'"),
        (("play", "household", "-o", "limit=many"), 2, "AE103 option 'limit' does not take 'many'"),
        (("play", "household", "-o", "colour=red"), 2, "AE103 agentenvs/Household-v0 has no option 'colour'"),
    ],
)
def test_mistakes_are_told_as_here(cli: Any, url: str, args: tuple[str, ...], code: int, said: str) -> None:
    ran = cli(*args, "--url", url)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


@pytest.mark.parametrize(
    ("url", "code", "said"),
    [("http://127.0.0.1:9", 3, "stays away"), ("127.0.0.1:8000", 2, "AE108 the URL of the server is none")],
)
def test_no_server(cli: Any, monkeypatch: pytest.MonkeyPatch, url: str, code: int, said: str) -> None:
    monkeypatch.setattr("agentenvs.client.patience.Patience.after", _give_up)
    ran = cli("eval", "household", "--policy", "noop", "--url", url)
    assert ran.code == code
    assert said in ran.err


def test_an_address_that_cannot_be_told_is_no_server(cli: Any, tmp_path: Any) -> None:
    ran = cli("serve", "household", "--port", "0", "--url-file", str(tmp_path / "nowhere" / "url"))
    assert ran.code == 2
    assert "cannot be read or written" in ran.err
    assert "Traceback" not in ran.err


def _give_up(self: Any, failed: Any) -> float:
    from agentenvs.core.errors import ServiceError

    raise ServiceError("the server stays away", why=str(failed))


def test_a_world_is_served_once_however_often_it_is_named(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[list[str]] = []
    monkeypatch.setattr("agentenvs_servers.run.serve", lambda envs, **_: served.append(envs))
    assert cli("serve", "household", "household", "agentenvs/Household-v0", "--port", "0").code == 0
    assert served == [["household"]]
