"""Environments in worker processes: a step that hangs, crashes or raises is undone, and nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentenvs.core import hosting, process, registry
from agentenvs.core.errors import (
    CapabilityError,
    ContractError,
    DataError,
    EpisodeNotStarted,
    OptionError,
    SnapshotError,
    SplitError,
)
from agentenvs.core.hosting import Hosted
from agentenvs.core.record import Recorded, parse_records
from agentenvs.core.replay import replay, rescore
from agentenvs.core.spec import EnvSpec
from agentenvs.core.task import TaskRef
from agentenvs.core.turn import Effect
from tests.core import guests

REF = TaskRef("train", 1)

UNDONE = [
    ("sleep", "step_timeout", "it took longer than 0.4 s"),
    ("exit", "step_crashed", "the environment crashed"),
    ("segfault", "step_crashed", "the environment crashed"),
    ("raise", "step_raised", "the environment failed"),
    ("leave", "step_raised", "the environment failed"),
    ("refuse", "step_raised", "the environment failed"),
    ("junk", "step_raised", "the environment failed"),
    ("nan", "step_raised", "the environment failed"),
    ("half", "step_raised", "the environment failed"),
    ("none", "step_raised", "the environment failed"),
    ("huge", "step_size", "it said or held more than 16 MB"),
]


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"tool": tool, "arguments": arguments}


@pytest.fixture
def host() -> Iterator[Callable[..., Hosted]]:
    made: list[Hosted] = []

    def one(spec: EnvSpec = guests.SPEC, **options: Any) -> Hosted:
        made.append(Hosted(spec, **options))
        return made[-1]

    yield one
    for env in made:
        env.close()


@pytest.fixture
def begun(host: Callable[..., Hosted]) -> Hosted:
    env = host()
    env.reset(REF)
    return env


def pid_of(env: Hosted) -> int:
    assert env._worker is not None
    return env._worker._process.pid


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def gone(pid: int, seconds: float = 3.0) -> bool:
    end = time.monotonic() + seconds
    while is_running(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not is_running(pid)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_the_registry_hosts_what_asks_for_a_process(host):
    env = registry.make_from(guests.SPEC)
    assert isinstance(env, Hosted)
    env.close()


def test_all_that_is_told_of_a_world_comes_through(host):
    env = host(admissible=True, shaping=True)
    observation = env.reset(REF)
    assert observation.text == "Begin."
    assert (observation.admissible, dict(observation.budgets)) == (("add", "0"), {"steps": 40, "draws": 8})
    result = env.step(call("add", by=3))
    assert result.observation.text == "add: 3"
    assert result.reward == pytest.approx(0.3)
    assert env.state_key == "3:1"
    assert env.task().instruction == "Count to ten."
    assert env.labels() == {"kind": "count", "par": 10}
    assert env.current is not None
    assert env.current.to_json() == {"name": "train/1", "hidden": {"index": 1}}
    trace = env.last_trace
    assert trace is not None
    assert trace.to_json()["written"] == [["count", "is", "3", 1]]
    assert (trace.action, trace.potential) == ({"tool": "add", "arguments": {"by": 1}}, 0.3)


def test_what_was_not_asked_for_is_fetched_when_wanted(begun):
    begun.step(call("add"))
    assert begun.observation.admissible is None
    assert begun.admissible() == ("add", "1")
    assert begun.last_trace is not None
    assert begun.last_trace.potential == 0.1


@pytest.mark.parametrize(("tool", "code", "words"), UNDONE)
def test_a_turn_that_fails_is_undone(host, tool, code, words):
    begun = host(guests.HASTY if tool == "sleep" else guests.SPEC)
    begun.reset(REF)
    begun.step(call("add"))
    key, worker = begun.state_key, pid_of(begun)
    result = begun.step(call(tool))
    assert result.observation.text == f"This turn was undone: {words}."
    assert result.info["invalid"] is True
    assert "secret" not in json.dumps(result.observation.to_json())
    assert begun.last_valid == (False, code)
    assert begun.effects == [
        Effect("step_undone", {"error": code, "said": f"This turn was undone: {words}.", "ends": False})
    ]
    assert begun.state_key == key
    assert begun.last_trace is not None
    assert begun.last_trace.written == ()
    assert gone(worker)
    assert begun.step(call("add")).observation.text == "add: 2"


@pytest.mark.parametrize(
    "forged",
    [
        [],
        {"value": None},
        {"value": {}},
        {"value": {"outcome": {"blocks": 7}}},
        {"value": {"outcome": {"blocks": []}, "effects": 1, "left": 0, "key": 0, "budgets": {}}},
        {"value": {"outcome": {"blocks": []}, "effects": [{}], "left": 0, "key": 0, "budgets": {}}},
        {"refused": "os", "what": "?"},
    ],
)
def test_a_reply_that_makes_no_sense_is_a_failure_of_the_turn(begun, forged, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(process, "unpack", lambda _: patch.undo() or forged)
        result = begun.step(call("add"))
    assert result.info["invalid"] is True
    assert begun.step(call("add")).observation.text == "add: 1"


@pytest.mark.parametrize(
    ("tool", "why"), [("raise", "RuntimeError at guests.py:"), ("exit", "the process died in play")]
)
def test_an_author_learns_why_a_turn_was_undone(begun, tool, why):
    begun.step(call("add"))
    assert begun.failure == ""
    begun.step(call(tool))
    assert begun.failure.startswith(why)
    assert "secret" not in begun.failure


def test_a_turn_of_several_calls_is_undone_whole(begun):
    result = begun.step([call("add"), call("raise"), call("add")])
    assert (result.info["invalid"], begun.state_key) == (True, "0:1")
    assert len(result.observation.blocks) == 1


@pytest.mark.parametrize("capabilities", [{}, {"snapshot": False}, {"replayable": False}])
def test_the_world_comes_back_by_checkpoint_or_by_replay(host, capabilities, monkeypatch):
    monkeypatch.setattr(hosting, "CHECKPOINT_TURNS", 3)
    env = host(guests.spec(**capabilities))
    env.reset(REF)
    for _ in range(4):
        env.step([call("add"), call("draw")])
    env.step("nonsense")
    before = env.state_key
    assert env.step(call("exit")).observation.budgets["draws"] == 4
    assert env.state_key == before == "4:5"
    assert env.step(call("add")).observation.text == "add: 5"


def test_a_world_that_cannot_come_back_ends_the_episode_as_aborted(host):
    recorded = Recorded(host(guests.spec(snapshot=False, replayable=False)))
    recorded.reset(REF)
    recorded.step(call("add"))
    result = recorded.step(call("exit"))
    assert result.observation.text.endswith("The episode ends here.")
    assert (result.terminated, result.truncated, result.reward) == (False, True, 0.0)
    assert (recorded.env.ending, recorded.env.verdict.success) == ("aborted", False)
    assert rescore(parse_records(recorded.to_bytes())[0], host()).equal
    assert recorded.env.labels() == {}


def test_a_world_that_comes_back_different_is_not_taken(host):
    env = host(guests.spec(snapshot=False))
    env.reset(REF)
    env.step(call("add"))
    env._played[0] = env._played[0]._replace(action=call("add", by=2))
    env.step(call("exit"))
    assert env.ending == "aborted"


def test_three_undone_turns_in_a_row_end_the_episode(begun):
    for tool in ("raise", "exit"):
        begun.step(call(tool))
    begun.step(call("add"))
    for tool in ("raise", "exit", "raise"):
        assert begun.ending is None
        begun.step(call(tool))
    assert begun.ending == "aborted"
    assert begun.finish("abandoned") is begun.verdict
    with pytest.raises(SnapshotError, match="has no world any more"):
        begun.snapshot()


def test_undone_turns_are_counted_across_a_snapshot(host, begun):
    begun.step(call("raise"))
    begun.step(call("raise"))
    twin = host()
    twin.restore(begun.snapshot())
    twin.step(call("raise"))
    assert twin.ending == "aborted"


@pytest.mark.parametrize("last", [["add"], ["raise", "raise", "raise"]])
def test_a_replay_gives_the_same_bytes_without_running_what_was_undone(host, last, monkeypatch):
    recorded = Recorded(host(guests.HASTY))
    recorded.reset(REF)
    for tool in ("add", "sleep", "draw", "exit", "raise", "draw", *last):
        recorded.step(call(tool))
    recorded.finish("abandoned")
    record = parse_records(recorded.to_bytes())[0]
    twin = host(guests.HASTY)
    started: list[Any] = []
    monkeypatch.setattr(hosting, "Worker", lambda *arguments: started.append(arguments))
    report = replay(record, twin)
    monkeypatch.undo()
    assert report.equal, str(report.divergence)
    assert started == []  # nothing was run that takes a worker down
    assert rescore(record, twin).equal


@pytest.mark.parametrize("value", [None, {"error": 1, "said": "", "ends": False}, {"error": "x"}])
def test_a_forged_undoing_is_a_divergence(host, value):
    recorded = Recorded(host())
    recorded.reset(REF)
    recorded.step(call("exit"))
    record = parse_records(recorded.to_bytes())[0]
    record.turns[0]["effects"][0]["value"] = value
    report = replay(record, host())
    assert report.divergence is not None
    assert (report.divergence.turn, report.divergence.field) == (1, "effects")


def test_effects_of_the_worker_are_fed_back(host, begun):
    begun.step(call("draw"))
    drawn = begun.effects
    assert [effect.kind for effect in drawn] == ["draw"]
    twin = host()
    twin.reset(REF, effects=[Effect("first", 1)])
    twin.step(call("draw"), effects=drawn)
    assert twin.effects == drawn
    assert json.loads(twin.snapshot())["world"]["world"]["drawn"] == [0, drawn[0].value]


def test_an_effect_that_was_not_recorded_is_a_divergence(begun):
    with pytest.raises(ContractError, match="'draw' was not recorded here"):
        begun.step(call("draw"), effects=[])


def test_what_a_guest_prints_disturbs_nobody(begun, capfd):
    assert begun.step(call("print")).observation.text == "print: 0"
    assert begun.step(call("stdin")).observation.text == "stdin: 0"
    assert capfd.readouterr() == ("", "")


def test_children_of_a_killed_worker_go_with_it(host, tmp_path):
    begun = host(guests.HASTY)
    begun.reset(REF)
    begun.step(call("child", path=str(tmp_path / "pid")))
    assert begun.last_valid == (False, "step_timeout")
    assert gone(int((tmp_path / "pid").read_text()))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems know no adopted orphans")
@pytest.mark.parametrize("how", ["close", "kill the host"])
def test_children_that_left_group_and_parent_go_too(host, tmp_path, how):
    begun = host()
    begun.reset(REF)
    begun.step(call("stray", path=str(tmp_path / "pid")))
    until = time.monotonic() + 10
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < until
        time.sleep(0.02)
    stray = int((tmp_path / "pid").read_text())
    assert is_running(stray)
    if how == "close":
        begun.close()
    else:
        process._close_pipes(begun._worker._process)  # what becomes of them when their host dies
    assert gone(stray)


def test_a_child_that_left_the_group_and_holds_the_pipe_holds_nobody(host, tmp_path):
    begun = host(guests.HASTY)
    begun.reset(REF)
    started = time.monotonic()
    begun.step(call("daemon", path=str(tmp_path / "pid")))
    assert begun.last_valid[0] is False
    begun.close()
    assert time.monotonic() - started < 2.8  # the child sleeps for 3 s
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_a_worker_that_dies_between_turns_is_replaced(begun):
    begun.step(call("add"))
    os.killpg(pid_of(begun), signal.SIGKILL)
    assert begun.step(call("add")).info["invalid"] is True
    assert begun.step(call("add")).observation.text == "add: 2"


def test_a_world_that_cannot_be_judged_is_aborted(begun):
    begun.step(call("unjudge"))
    verdict = begun.finish("abandoned")
    assert (begun.ending, verdict.reward, verdict.success) == ("aborted", 0.0, False)


def test_a_world_that_cannot_be_judged_at_its_own_end_is_aborted(begun):
    begun.step(call("unjudge"))
    result = begun.step(call("add", by=10))
    assert (result.terminated, result.reward, begun.ending) == (True, 0.0, "aborted")


def test_a_checkpoint_that_fails_undoes_the_turn(begun, monkeypatch):
    monkeypatch.setattr(hosting, "CHECKPOINT_TURNS", 1)
    begun.step(call("unsave"))
    assert begun.last_valid == (False, "step_raised")


def test_a_fork_is_exact_independent_and_closes_alone(begun):
    begun.step(call("add"))
    twin = begun.fork()
    assert isinstance(twin, Hosted)
    assert twin.last_trace == begun.last_trace
    twin.step(call("add", by=5))
    assert (begun.state_key, twin.state_key) == ("1:1", "6:1")
    assert twin.step(call("exit")).info["invalid"]
    pid = pid_of(twin)
    twin.close()
    assert gone(pid)
    assert begun.step(call("add")).observation.text == "add: 2"


def test_a_worker_without_snapshots_is_not_forked(host):
    env = host(guests.spec(snapshot=False))
    env.reset(REF)
    with pytest.raises(CapabilityError, match="cannot be forked"):
        env.fork()
    with pytest.raises(CapabilityError, match="has no snapshots"):
        env.snapshot()


def test_a_damaged_snapshot_is_refused_and_the_environment_goes_on(host, begun):
    form = json.loads(begun.snapshot())
    for world in (None, {}, {"undone": 0, "world": {"no": 1}}):
        with pytest.raises(SnapshotError, match="damaged"):
            begun.restore(json.dumps({**form, "world": world}).encode())
    assert begun.reset(REF).text == "Begin."


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"folder": "absent"}, DataError, "no folder 'absent'"),
        ({"folder": 3}, OptionError, "does not take 3"),
        ({"folder": "broken"}, ContractError, "cannot be made in a worker process"),
    ],
)
def test_an_environment_that_cannot_be_made_says_so_and_leaves_nothing(options, error, match):
    before = descriptors()
    with pytest.raises(error, match=match) as raised:
        Hosted(guests.SPEC, **options)
    assert "secret" not in str(raised.value)
    del raised
    gc.collect()
    assert descriptors() == before


@pytest.mark.parametrize(
    ("entry", "match"),
    [("tests.core.guests:Nobody", "has no 'Nobody'"), ("tests.core.guests:nobody", "an Environment was expected")],
)
def test_an_entry_point_that_makes_no_environment_is_named(entry, match):
    with pytest.raises(ContractError, match=match):
        Hosted(replace(guests.SPEC, entry_point=entry))


def test_a_scenario_that_is_refused_is_a_users_error(begun):
    with pytest.raises(SplitError, match="no such seed"):
        begun.reset(TaskRef("train", 404))
    assert begun.reset(REF).text == "Begin."


def test_an_opening_that_fails_leaves_an_environment_that_can_be_reset(begun):
    with pytest.raises(ContractError, match="guests/Guest-v0 failed"):
        begun.reset(TaskRef("train", 13))
    with pytest.raises(ContractError, match="has no world"):
        begun.step(call("add"))
    assert begun.reset(REF).text == "Begin."


def test_closing_leaves_no_process_and_no_descriptor(host):
    before = descriptors()
    env = host()
    env.reset(REF)
    env.step(call("exit"))
    pid = pid_of(env)
    env.close()
    env.close()
    assert gone(pid)
    assert descriptors() == before
    with pytest.raises(EpisodeNotStarted):
        env.step(call("add"))
    assert env.reset(REF).text == "Begin."


def test_a_forgotten_environment_is_ended():
    env = Hosted(guests.SPEC)
    pid = pid_of(env)
    del env
    gc.collect()
    assert gone(pid)


def test_closing_from_another_thread_ends_a_step_under_way(host):
    env = host(guests.spec(step_seconds=30.0))
    env.reset(REF)
    pid = pid_of(env)
    closer = threading.Timer(0.3, env.close)
    closer.start()
    started = time.monotonic()
    with pytest.raises(EpisodeNotStarted):
        env.step(call("sleep", seconds=20))
    closer.join()
    assert time.monotonic() - started < 3.0
    assert gone(pid)
    assert env._worker is None


def test_an_interrupted_step_leaves_no_stale_answer(host, monkeypatch):
    env = host(guests.spec(step_seconds=5.0))
    env.reset(REF)
    env.step(call("add"))

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(process.Worker, "_read", interrupt)
        with pytest.raises(KeyboardInterrupt):
            env.step(call("add"))
    assert env.turn == 1
    assert env.step(call("add")).observation.text == "add: 2"


def test_an_event_loop_is_not_held(host):
    env = host()
    env.reset(REF)

    async def both() -> int:
        ticks = 0
        step = asyncio.create_task(env.astep(call("sleep", seconds=0.2)))
        while not step.done():
            await asyncio.sleep(0.02)
            ticks += 1
        assert not step.result().info["invalid"]
        return ticks

    assert asyncio.run(both()) >= 5


_PARENT = """
import sys, time
from agentenvs.core.hosting import Hosted
from agentenvs.core.task import TaskRef
from tests.core import guests
env = Hosted(guests.spec(step_seconds=30.0))
env.reset(TaskRef("train", 1))
print(env._worker._process.pid, flush=True)
if sys.argv[1] == "step":
    env.step({"tool": "sleep", "arguments": {"seconds": 20}})
elif sys.argv[1] == "idle":
    time.sleep(20)
"""


@pytest.mark.parametrize("doing", ["step", "idle", "exit"])
def test_a_worker_ends_with_its_host(root, doing):
    paths = os.pathsep.join(str(root / room) for room in (".", "servers", "scenarios", "scoring"))
    host = subprocess.Popen(
        [sys.executable, "-c", _PARENT, doing],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert host.stdout is not None
    with host, host.stdout:
        pid = int(host.stdout.readline())
        if doing != "exit":
            time.sleep(0.2)
            host.kill()
        host.wait()
    assert gone(pid)


def test_a_forked_copy_of_the_host_leaves_its_parents_worker_alone(begun):
    child = os.fork()
    if child == 0:
        try:
            begun.step(call("add"))
            works = begun.state_key == "1:1"
            begun.close()
            os._exit(0 if works else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert begun.step(call("add")).observation.text == "add: 1"


def test_systems_without_process_groups_are_told(monkeypatch):
    monkeypatch.delattr(os, "killpg")
    with pytest.raises(process.ConfigError, match="cannot be hosted here"):
        Hosted(guests.SPEC)
