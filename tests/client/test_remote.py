from __future__ import annotations

import gc
import math
from typing import Any

import gymnasium
import httpx
import pytest

import agentenvs
from agentenvs.client import ClientSettings, RemoteEnv
from agentenvs.core import registry
from agentenvs.core.actions import Message
from agentenvs.core.errors import (
    CapabilityError,
    ConfigError,
    ContractError,
    EpisodeEnded,
    EpisodeNotStarted,
    OptionError,
    ServiceError,
    SplitError,
    UnknownEnvError,
)
from agentenvs.core.gym import GymEnv
from agentenvs.core.record import Recorded, parse_records
from agentenvs.core.replay import replay, rescore
from agentenvs.core.task import TaskRef
from tests.harness import playroom

JUNK = [
    "",
    "\ud800 half a pair",
    b"bytes",
    math.nan,
    {"tool": "go_to", "arguments": {"receptacle": math.inf}},
    {"tool": "go_to", "arguments": {"receptacle": {"a", "set"}}},
    {"tool": 3},
    {"calls": []},
    [{"tool": "look", "arguments": {}}] * 3,
    {"nothing": "known"},
    {"tool": "look", "arguments": {"n": 2**70}},
    object,
    None,
    False,
    Message("\udfff"),
    "x" * 65_536,
    "\U0001f600" * 70_000,
    "look\nlook",
]


def _pair(remote: Any, env: str = "household", **options: Any) -> tuple[Any, RemoteEnv]:
    return registry.make(env, **options), remote(env, **options)


def test_it_says_of_itself_what_the_environment_in_process_says(remote: Any) -> None:
    here, there = _pair(remote, limit=7, admissible=True)
    assert there.spec.digest == here.spec.digest
    assert (there.spec.entry_point, there.spec.players) == ("", {})
    assert there.splits() == here.splits()
    assert there.public_options() == here.public_options()
    assert there.declared_budgets() == here.declared_budgets() == {"steps": 7}
    assert repr(there) == "<RemoteEnv household at in-process>"


@pytest.mark.parametrize("admissible", [False, True])
def test_an_episode_is_the_one_in_process(remote: Any, admissible: bool) -> None:
    here, there = _pair(remote, admissible=admissible)
    ref = TaskRef("dev", 3)
    recorded = Recorded(here)
    assert there.reset(ref) == recorded.reset(ref)
    assert (there.task(), there.ref, there.turn) == (here.task(), ref, 0)
    assert (there.labels(), there.scenario_name(), there.ending, there.verdict) == ({}, "", None, None)
    listed = here.admissible() or ()
    while here.ending is None:
        action = listed[here.turn * 7 % len(listed)]
        assert there.step(action) == recorded.step(action)
        listed = here.admissible() or ()
        assert there.admissible() == (listed if admissible else None)
        assert (there.turn, there.observation) == (here.turn, here.observation)
    assert (there.ending, there.verdict) == (here.ending, here.verdict)
    assert (there.labels(), there.scenario_name()) == (here.labels(), here.scenario_name())
    assert there.record() == recorded.to_bytes()


@pytest.mark.parametrize("env", ["stairs", "escalator"])
def test_the_verdict_is_there_as_soon_as_the_episode_has_ended(remote: Any, env: str) -> None:
    there = remote(env)
    there.reset(TaskRef("few", 0))
    result = there.step("up")
    assert (result.terminated, result.reward) == (True, 1.0)
    assert (there.ending, there.verdict.success, there.labels()) == ("terminated", True, {"kind": "short", "par": 1})
    assert there.scenario_name() == "few-0"
    assert there.finish("abandoned") == there.verdict


@pytest.mark.parametrize("action", JUNK, ids=[ascii(action)[:30] for action in JUNK])
def test_junk_is_the_turn_that_it_is_in_process(remote: Any, action: Any) -> None:
    here, there = _pair(remote)
    recorded = Recorded(here)
    recorded.reset()
    there.reset()
    assert there.step(action) == recorded.step(action)
    recorded.finish("abandoned")
    there.finish("abandoned")
    assert there.record() == recorded.to_bytes()


def test_what_a_server_finds_too_large_is_an_invalid_turn(remote: Any, app: Any) -> None:
    from agentenvs.client import in_process
    from agentenvs_servers.app import make_app
    from agentenvs_servers.settings import Settings

    small = in_process(make_app(["stairs"], Settings(max_action_bytes=2_000)))
    with agentenvs.make("stairs", url="http://small", transport=small) as there:
        there.reset(TaskRef("few", 0))
        result = there.step("up " * 1_000)
        assert (result.info["invalid"], there.turn, there.ending) == (True, 1, None)
        there.step("up")
        turn = parse_records(there.record())[0].turns[0]
    assert turn["action"]["why"] == "an action too large for the server"


def test_traces_where_asked_for(remote: Any) -> None:
    here, there = registry.make("household"), remote("household", trace=True)
    here.reset()
    there.reset()
    assert there.last_trace is None
    for action in ("look", "nonsense", {"tool": "go_to", "arguments": {"receptacle": "fridge 1"}}):
        assert there.step(action) == here.step(action)
        assert there.last_trace == here.last_trace


def test_no_traces_where_not(remote: Any) -> None:
    there = remote()
    there.reset()
    there.step("up")
    assert there.last_trace is None


@pytest.mark.parametrize("ending", ["abandoned", "truncated"])
def test_it_can_be_ended_early(remote: Any, ending: Any) -> None:
    here, there = _pair(remote, "stairs")
    recorded = Recorded(here)
    for env in (recorded, there):
        env.reset(TaskRef("few", 2))
        env.step("up")
    assert there.finish(ending) == recorded.finish(ending) == there.verdict
    assert there.ending == ending
    assert there.finish("abandoned") == there.verdict
    assert there.record() == recorded.to_bytes()
    (record,) = parse_records(there.record())
    assert replay(record).equal
    assert rescore(record).equal
    with pytest.raises(EpisodeEnded, match=rf"tests/Stairs-v0 has ended \({ending}\)"):
        there.step("up")


@pytest.mark.parametrize("ending", ["terminated", "aborted"])
def test_how_a_world_ends_is_not_for_a_client_to_say(remote: Any, ending: Any) -> None:
    there = remote()
    there.reset()
    with pytest.raises(ContractError, match=f"a client cannot end an episode as {ending}"):
        there.finish(ending)
    with pytest.raises(ContractError, match="'won' is no ending"):
        there.finish("won")
    assert there.ending is None


def test_resets_go_on_in_the_same_session_and_abandon_what_runs(remote: Any) -> None:
    there = remote()
    there.reset(TaskRef("few", 2))
    first, key = there.episode, there.agent_key
    there.step("up")
    there.reset(TaskRef("few", 0))
    assert (there.turn, there.ending, there.ref) == (0, None, TaskRef("few", 0))
    assert there.episode != first
    assert there.agent_key != key
    assert parse_records(there.record(first))[0].footer["ending"] == "abandoned"
    with pytest.raises(ServiceError, match=r"refuses: .* \(episode_running\)"):
        there.record()


def test_endless_splits_take_any_seed(remote: Any) -> None:
    here, there = _pair(remote, "stairs")
    ref = TaskRef("train", -(2**60))
    assert there.reset(ref) == here.reset(ref)
    assert there.task() == here.task()


def test_out_of_turn(remote: Any) -> None:
    there = remote()
    calls = (
        lambda: there.step("up"),
        lambda: there.finish("abandoned"),
        lambda: there.observation,
        lambda: there.task(),
        lambda: there.episode,
        lambda: there.agent_key,
        lambda: there.record(),
        lambda: there.twin(),
    )
    for call in calls:
        with pytest.raises(EpisodeNotStarted, match="tests/Stairs-v0 has no episode"):
            call()
    with pytest.raises(EpisodeNotStarted, match="stairs has no session at in-process"):
        there.ping()
    there.reset()
    assert 0 < there.ping().idle <= there.ping().absolute
    there.close()
    there.close()
    with pytest.raises(EpisodeNotStarted):
        there.step("up")
    there.reset(TaskRef("few", 0))
    assert there.step("up").terminated


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        (TaskRef("nowhere", 0), "tests/Stairs-v0 has no split 'nowhere'"),
        (TaskRef("few", 6), "split 'few' has no index 6"),
        (TaskRef("few", -1), "split 'few' has no index -1"),
        (TaskRef("few", True), "True is no index"),
    ],
)
def test_no_such_scenario(remote: Any, ref: TaskRef, message: str) -> None:
    here, there = _pair(remote, "stairs")
    there.reset()
    for env in (here, there):
        with pytest.raises(SplitError, match=message):
            env.reset(ref)
    with pytest.raises(SplitError, match=message):
        there.check_ref(ref)
    assert there.step("up").observation.text == "Step 1."


def test_a_sealed_split_is_refused_by_its_server(remote: Any) -> None:
    with pytest.raises(SplitError, match="The sealed split is not served"):
        remote("household").reset(TaskRef("sealed", 0))


@pytest.mark.parametrize(
    ("env", "options", "error", "message"),
    [
        ("stairs", {"colour": "red"}, OptionError, "tests/Stairs-v0 has no option 'colour'"),
        ("stairs", {"at": "one"}, OptionError, "option 'at' does not take 'one'"),
        ("household", {"data": "/tmp"}, OptionError, "the option 'data' cannot be set from here"),
        ("webshoop", {}, UnknownEnvError, "this server hosts: household"),
    ],
)
def test_what_cannot_be_made(remote: Any, env: str, options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        remote(env, **options)


@pytest.mark.parametrize("name", ["agentenvs/Household-v0", "household"])
def test_make_dispatches(app: Any, name: str) -> None:
    with agentenvs.make(name, url="http://x:8/v1", transport=app, admissible=True, trace=True) as there:
        assert isinstance(there, RemoteEnv)
        assert there.reset().admissible
        there.step("look")
        assert there.last_trace.valid
    assert isinstance(agentenvs.make(name, admissible=True), agentenvs.Environment)


def test_a_world_that_fails_has_aborted_its_episode(remote: Any) -> None:
    there = remote("stairs", fault="act")
    there.reset(TaskRef("few", 1))
    with pytest.raises(ContractError, match="RuntimeError in turn 1"):
        there.step("up")
    assert (there.ending, there.verdict.reward) == ("aborted", 0.0)
    here = Recorded(registry.make("stairs", fault="act"))
    here.reset(TaskRef("few", 1))
    with pytest.raises(RuntimeError):
        here.step("up")
    here.abort("RuntimeError", TaskRef("few", 1))
    assert there.record() == here.to_bytes()
    with pytest.raises(EpisodeEnded):
        there.step("up")


def test_a_world_that_fails_at_the_beginning(remote: Any) -> None:
    there = remote("stairs", fault="begin")
    with pytest.raises(ContractError, match="RuntimeError at the beginning"):
        there.reset(TaskRef("few", 1))
    there.reset(TaskRef("few", 0))
    assert there.step("up").terminated


def test_garbage_collection_and_blocks_close_the_session(url: str) -> None:
    def open_sessions() -> bool:
        return httpx.get(f"{url}/v1/agent", headers={"Authorization": f"Bearer {key}"}).status_code == 200

    there = RemoteEnv("stairs", url)
    there.reset()
    key = there.agent_key
    assert open_sessions()
    del there
    gc.collect()
    assert not open_sessions()
    with RemoteEnv("stairs", url) as there:
        there.reset()
        key = there.agent_key
        assert open_sessions()
    assert not open_sessions()


def test_the_agent_key_plays_the_episode_and_nothing_else(url: str) -> None:
    with RemoteEnv("stairs", url) as there, httpx.Client(base_url=url) as agent:
        there.reset(TaskRef("few", 0))
        agent.headers["Authorization"] = f"Bearer {there.agent_key}"
        assert agent.post("/v1/agent/step", json={"turn": 1, "action": "up"}).json()["terminated"]
        assert agent.post("/v1/sessions", json={}).status_code in (401, 403, 422)
        # The client was not told; it learns of the end from the server.
        assert there.finish("abandoned").success
        assert there.ending == "terminated"


def test_the_twin_world_shows_the_scenario(remote: Any) -> None:
    there = remote("household")
    there.reset(TaskRef("dev", 5))
    twin = there.twin()
    assert twin.current == registry.make("household").scenario("dev", 5)
    assert there.twin() is twin
    there.reset(TaskRef("dev", 6))
    assert there.twin().ref == TaskRef("dev", 6)


def test_no_twin_of_another_world(remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    there = remote()
    there.reset(TaskRef("few", 1))
    begin = playroom.Stairs._begin
    monkeypatch.setattr(playroom.Stairs, "_begin", lambda self, scenario: begin(self, scenario) + " A lift.")
    with pytest.raises(ConfigError, match="the world at in-process is not the one here"):
        there.twin()


def test_no_twin_of_what_is_not_installed(remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    there = remote()
    there.reset(TaskRef("few", 1))
    monkeypatch.setattr(registry, "_registered", {})
    with pytest.raises(UnknownEnvError, match="tests/Stairs-v0 is not installed here"):
        there.twin()


def test_gymnasium_takes_it(remote: Any) -> None:
    env = GymEnv(remote("household", admissible=True))
    first, info = env.reset(options={"split": "dev", "index": 2})
    here = gymnasium.make("agentenvs/Household-v0", admissible=True)
    assert (first, info) == here.reset(options={"split": "dev", "index": 2})
    assert env.step("look") == here.step("look")


@pytest.mark.parametrize(
    ("name", "value", "least"),
    [("timeout", 0, "0.001"), ("retries", -1, "0"), ("retries", 1.5, "0"), ("ttl", 0, "1"), ("backoff", math.nan, "0")],
)
def test_settings_that_make_no_sense(name: str, value: Any, least: str) -> None:
    with pytest.raises(ConfigError, match=rf"{name} .* makes no sense") as raised:
        ClientSettings(**{name: value})
    assert raised.value.fix == f"the least is {least}"


def test_a_session_lives_as_its_client_asks(url: str) -> None:
    training = ClientSettings(durability="memory", records="drop", ttl=60)
    with RemoteEnv("household", url=url, settings=training) as there:
        there.reset(TaskRef("dev", 3))
        assert there.step("look").observation.text
        assert there.finish("abandoned").success is False
    strict = RemoteEnv("household", url=url, settings=ClientSettings(durability="strict"))
    with strict as there, pytest.raises(ServiceError, match="not kept like that here"):
        there.reset(TaskRef("dev", 3))
    for name in ("durability", "records"):
        with pytest.raises(ConfigError, match=f"{name} 'none' makes no sense"):
            ClientSettings(**{name: "none"})


# ---- forks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", ["app", "socket"])
def test_forks_are_those_in_process(url: str, app: Any, wire: str) -> None:
    more: dict[str, Any] = {"transport": app} if wire == "app" else {"url": url}
    with RemoteEnv("household", trace=True, **more) as there:
        here = Recorded(registry.make("household"))
        ref = TaskRef("dev", 3)
        assert there.reset(ref) == here.reset(ref)
        assert there.step("look") == here.step("look")
        twins, copies = there.fork(2), [here.fork(), here.fork()]
        for twin, copy in zip(twins, copies, strict=True):
            assert (twin.turn, twin.observation, twin.ref) == (1, copy.env.observation, ref)
            assert (twin.task(), twin.public_options()) == (there.task(), there.public_options())
            assert twin.step("inventory") == copy.step("inventory")
            assert twin.last_trace == copy.env.last_trace
            assert twin.finish("truncated") == copy.finish("truncated")
            assert twin.record() == copy.to_bytes()
        assert len({env.episode for env in (there, *twins)}) == 3
        assert there.step("nonsense") == here.step("nonsense")
        assert twins[0].twin().observation == registry.make("household").reset(ref)
        for twin in twins:
            twin.close()


def test_there_are_no_snapshots_on_the_wire(remote: Any) -> None:
    there = remote("stairs")
    there.reset(TaskRef("few", 0))
    with pytest.raises(CapabilityError, match="no snapshots here"):
        there.snapshot()
    with pytest.raises(CapabilityError, match="restores no snapshot"):
        there.restore(b"{}")


def test_what_cannot_be_forked(remote: Any) -> None:
    there = remote("stairs")
    with pytest.raises(EpisodeNotStarted):
        there.fork()
    there.reset(TaskRef("few", 0))
    there.step("up")
    with pytest.raises(EpisodeEnded):
        there.fork()
