"""Runs over a wire are the runs in process, byte for byte, and survive what a wire adds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentenvs.client import ClientSettings, in_process
from agentenvs.core import registry
from agentenvs.core.errors import ConfigError, OptionError, ServiceError, UnknownEnvError
from agentenvs.core.record import read_records
from agentenvs.core.replay import replay, rescore
from agentenvs.harness.recording import recorder
from agentenvs.harness.report import read_run, write_report
from agentenvs.harness.run import RunConfig, RunResult, evaluate, plan
from agentenvs_servers.app import make_app
from tests.client.servers import Relay, relaying, serving
from tests.harness import playroom

QUICK = ClientSettings(backoff=0.001, retries=1, timeout=5, patience=0)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving("household", "stairs", "escalator") as found:
        yield found


@pytest.fixture(autouse=True)
def _let_go() -> Iterator[None]:
    playroom.WAIT.clear()
    yield
    playroom.WAIT.set()


def _run(tmp_path: Path, name: str, policy: Any, env: str = "stairs", **config: Any) -> RunResult:
    if not isinstance(policy, str):
        policy = f"tests.harness.playroom:{policy.__name__}"
    return evaluate(RunConfig(env, policy, out=tmp_path / name, client=QUICK, **config))


def _both(tmp_path: Path, url: str, policy: Any, env: str = "stairs", **config: Any) -> tuple[RunResult, RunResult]:
    return (
        _run(tmp_path, "here", policy, env, **config),
        _run(tmp_path, "there", policy, env, url=url, **config),
    )


def _same(here: RunResult, there: RunResult) -> None:
    """Hold that two runs are equal in all that is about the episodes."""
    for part in ("summary.json", "episodes.jsonl"):
        lines = [sorted((run.folder / part).read_bytes().splitlines()) for run in (here, there)]
        assert lines[0] == lines[1]
    for number in range(len(here.episodes)):
        name = f"records/{number:06d}.jsonl"
        assert (here.folder / name).read_bytes() == (there.folder / name).read_bytes()
    told = [
        {**run.manifest.model_dump(), "run_id": "", "created": "", "harness": "", "envs": ""} for run in (here, there)
    ]
    assert told[0] == told[1]


@pytest.mark.parametrize("policy", ["expert", "oracle", "random", "noop"])
def test_household_over_a_wire(tmp_path: Path, url: str, policy: str) -> None:
    here, there = _both(tmp_path, url, policy, "household", split="dev", episodes=6, concurrency=3)
    _same(here, there)
    assert there.clean
    assert all(replay(record).equal and rescore(record).equal for record in read_records(there.folder))
    assert there.manifest.agent.privileged == (policy == "oracle")


@pytest.mark.parametrize("env", ["stairs", "escalator"])
@pytest.mark.parametrize(
    "policy", [playroom.Climber, playroom.Dreamer, playroom.Talker, playroom.Oracle, playroom.Quitter, playroom.Faller]
)
def test_players_good_and_bad(tmp_path: Path, url: str, env: str, policy: Any) -> None:
    _same(*_both(tmp_path, url, policy, env, concurrency=2))


@pytest.mark.parametrize("policy", [playroom.Unready, playroom.Leaver, playroom.Untidy])
def test_players_that_fail(tmp_path: Path, url: str, policy: Any) -> None:
    _same(*_both(tmp_path, url, policy))


@pytest.mark.parametrize("fault", ["act", "judge", "labels"])
def test_worlds_that_fail_are_aborted_there_as_here(tmp_path: Path, url: str, fault: str) -> None:
    here, there = _both(tmp_path, url, playroom.Climber, options={"fault": fault})
    for name in ("000000", "000001", "000002"):
        records = [(run.folder / f"records/{name}.jsonl").read_bytes() for run in (here, there)]
        assert records[0] == records[1]
    assert [episode.ending for episode in there.episodes] == [episode.ending for episode in here.episodes]


def test_a_world_that_fails_at_once_has_no_record_on_the_server(tmp_path: Path, url: str) -> None:
    there = _run(tmp_path, "there", playroom.Climber, url=url, options={"fault": "begin"})
    assert [episode.ending for episode in there.episodes].count("aborted") == 1
    assert there.episodes[1].error == "RuntimeError at the beginning of the episode"
    assert all(replay(record).equal and rescore(record).equal for record in read_records(there.folder))


def test_a_stream_keeps_its_library_in_the_records(tmp_path: Path, url: str) -> None:
    _same(*_both(tmp_path, url, playroom.Pupil, order=(3, 1, 2), reward_visible="true"))


def test_the_wall_limit_truncates(tmp_path: Path, url: str) -> None:
    here, there = _both(tmp_path, url, playroom.Sleeper, episode_seconds=0.5, concurrency=2)
    _same(here, there)
    assert there.episodes[1].ending == "truncated"


def test_an_interrupt_abandons(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentenvs.harness.workers.WIND_DOWN_SECONDS", 0.2)
    here, there = _both(tmp_path, url, playroom.Interrupter)
    _same(here, there)
    assert there.interrupted
    assert there.episodes[2].ending == "abandoned"


def test_a_server_that_does_not_answer_is_cut_by_the_wall_limit(tmp_path: Path, url: str) -> None:
    once = iter([True])
    with relaying(url) as relay:
        relay.fault = lambda number, method, path: "slow" if path.endswith("/step") and next(once, False) else None
        there = _run(tmp_path, "there", playroom.Climber, url=relay.url, episode_seconds=0.3, episodes=2)
    assert [episode.ending for episode in there.episodes] == ["aborted", "terminated"]
    lost = there.episodes[0]
    assert (lost.stopped, lost.turns) == ("the wall limit of 0.3 s", 0)
    assert lost.error == "TimeoutError: the environment was still at work: the wall limit of 0.3 s"


class Unplugger(playroom.Climber):
    """Pulls the plug of the line in its second turn on index 2."""

    relay: Relay

    def act(self, observation: Any) -> Any:
        if self.task.ref.index == 2 and observation.text == "Step 1.":
            Unplugger.relay.fault = lambda number, method, path: "deaf"
        return "up"


def test_a_server_that_goes_away_costs_the_running_episode_and_ends_the_run(tmp_path: Path, url: str) -> None:
    with relaying(url) as relay:
        Unplugger.relay = relay
        with pytest.raises(ServiceError, match="stays away"):
            _run(tmp_path, "there", f"{__name__}:Unplugger", url=relay.url)
    there = read_run(tmp_path / "there")
    assert [episode["ending"] for episode in there.episodes] == ["terminated", "terminated", "aborted"]
    assert not there.manifest.complete
    lost = there.episodes[2]
    assert lost["error"].startswith("the server at 127.0.0.1:")
    assert (lost["reward"], lost["success"], lost["turns"], lost["scenario_digest"]) == (0.0, False, 0, None)
    records = list(read_records(there.folder))
    assert all(replay(record).equal and rescore(record).equal for record in records)
    assert records[2].header["observation"] is None


class Hider(playroom.Climber):
    """Loses the server's record of index 1."""

    relay: Relay

    def act(self, observation: Any) -> Any:
        if self.task.ref.index == 1:
            Hider.relay.fault = lambda number, method, path: (404, {}, b"") if "/record" in path else None
        return "up"


def test_an_episode_whose_record_is_lost_counts_as_aborted(tmp_path: Path, url: str) -> None:
    with relaying(url) as relay:
        Hider.relay = relay
        there = _run(tmp_path, "there", f"{__name__}:Hider", url=relay.url, episodes=2)
    assert [episode.ending for episode in there.episodes] == ["terminated", "aborted"]
    assert there.episodes[1].error.endswith("is no agentenvs server")


def test_the_record_of_another_episode_is_refused(tmp_path: Path, url: str) -> None:
    with relaying(url) as relay:
        good = _run(tmp_path, "good", playroom.Climber, url=url, episodes=1)
        record = (good.folder / "records/000000.jsonl").read_bytes()
        relay.fault = lambda number, method, path: (200, {}, record) if "/record" in path else None
        there = _run(tmp_path, "there", playroom.Climber, url=relay.url, episodes=2)
    assert [episode.ending for episode in there.episodes] == ["terminated", "aborted"]
    assert "is of another episode" in there.episodes[1].error


def test_the_manifest_says_that_it_went_over_a_wire(tmp_path: Path, url: str) -> None:
    here, there = _both(tmp_path, url, "noop", "household", split="dev", episodes=1)
    assert here.manifest.harness.server is None
    told = there.manifest.harness.server.model_dump()
    assert told == {"protocol": "agentenvs/1", "tls": False, "url_class": "loopback"}
    assert url.encode() not in (there.folder / "manifest.json").read_bytes()
    assert here.manifest.envs[0].scorer_hash
    assert there.manifest.envs[0].scorer_hash is None
    write_report([here.folder, there.folder], tmp_path / "both.html")
    assert "not the same" not in (tmp_path / "both.html").read_text()


def test_tokens_are_kept(tmp_path: Path) -> None:
    from agentenvs_servers.settings import Settings

    token = "a-token-of-the-server-0123"
    with serving("stairs", settings=Settings(tokens=(token,))) as url:
        there = _run(tmp_path, "there", playroom.Climber, url=url, token=token)
        assert there.clean
        assert token not in repr(RunConfig("stairs", "noop", url=url, token=token))
        kept = b"".join(path.read_bytes() for path in there.folder.rglob("*") if path.is_file())
        assert token.encode() not in kept
        with pytest.raises(ServiceError, match="unauthorized"):
            plan(RunConfig("stairs", "noop", url=url, client=QUICK))


def test_without_a_socket(tmp_path: Path) -> None:
    transport = in_process(make_app(["stairs"]))
    there = _run(tmp_path, "there", playroom.Oracle, url="http://app", transport=transport, concurrency=3)
    _same(_run(tmp_path, "here", playroom.Oracle, concurrency=3), there)


def test_what_a_player_wants_is_asked_of_the_server(tmp_path: Path, url: str) -> None:
    planned = plan(RunConfig("household", "random", url=url, options={"limit": 3}))
    assert (planned.options["limit"], planned.budgets) == (3, {"steps": 3})
    there = _run(tmp_path, "there", "random", "household", url=url, episodes=1, options={"limit": 3})
    assert json.loads(there.manifest.envs[0].options)["admissible"] is True


def test_another_release_here(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    other = replace(playroom.Stairs.spec, release="2")
    monkeypatch.setattr(registry, "_registered", {other.id: other})
    with pytest.raises(ConfigError, match="the server plays tests/Stairs-v0 release 1, here is 2"):
        plan(RunConfig("stairs", "noop", url=url))


def test_an_environment_that_is_not_installed_here(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})
    there = _run(tmp_path, "there", playroom.Climber, url=url, episodes=2)
    assert there.clean
    with pytest.raises(UnknownEnvError, match="tests/Stairs-v0 is not installed here"):
        _run(tmp_path, "again", playroom.Oracle, url=url)
    assert not (tmp_path / "again").exists()


def test_options_of_the_machine_are_for_the_twin_world_only(tmp_path: Path, url: str) -> None:
    with pytest.raises(OptionError, match="the option 'data' has no effect here"):
        _run(tmp_path, "there", "expert", "household", url=url, options={"data": str(tmp_path)})


def test_what_is_no_environment_keeps_no_record() -> None:
    with pytest.raises(ConfigError, match="a list keeps no record"):
        recorder([])  # type: ignore[arg-type]
