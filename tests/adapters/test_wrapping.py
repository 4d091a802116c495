"""Environments of other makers: what is found out about them, and that they are served, recorded and judged."""

from __future__ import annotations

import asyncio
import copy
import subprocess
from pathlib import Path

import pytest

import agentenvs
from agentenvs.adapters import foreign, mcp, openenv, wrapping
from agentenvs.adapters.foreign import EngineError, Reply
from agentenvs.adapters.objects import reply_of
from agentenvs.core import targets
from agentenvs.core.record import Recorded, parse_records
from agentenvs.core.replay import replay, rescore
from agentenvs.core.task import TaskRef
from agentenvs.harness.run import RunConfig, evaluate
from agentenvs_servers.run import background
from tests.adapters import peers

STRANGERS = "tests.adapters.strangers"
REF = TaskRef("train", 1)


@pytest.fixture
def wrapped(as_before, tmp_path, monkeypatch):
    """Return a function that wraps a target in a file, and returns the file."""
    monkeypatch.chdir(tmp_path)

    def one(target, name, change=lambda text: text):
        Path(f"{name}.py").write_text(change(wrapping.written(wrapping.look(target), name)))
        return f"./{name}.py"

    return one


def promises(target):
    said = targets.spec_of(target).capabilities
    assert said.replayable  # what is not determined is an effect
    return (said.deterministic, said.resumable, said.forkable, said.snapshot)


def over_a_server(target, policy="random", episodes=3, **options):
    """Evaluate over our server; return the run and its records."""
    with background([target]) as url:
        config = RunConfig(target, policy, episodes=episodes, url=url, out=Path("run"), options=options)
        result = evaluate(config)
    records = [record for file in sorted(Path("run").glob("records/*")) for record in parse_records(file.read_bytes())]
    assert result.clean, [episode.error for episode in result.episodes]
    assert len(records) == episodes
    return result, records


def test_cartpole_over_our_server(wrapped):
    file = wrapped("gymnasium:CartPole-v1", "cartpole_one")
    assert promises(file) == (False, True, True, True)
    result, records = over_a_server(file)
    assert result.summary["mean_return"] > 5
    assert all(turn["effects"] for record in records for turn in record.turns)
    assert all(replay(record).equal and rescore(record).equal for record in records)


def test_taxi_over_our_server(wrapped):
    file = wrapped("gymnasium:Taxi-v4", "taxi_one")
    assert promises(file) == (True, True, True, True)
    assert agentenvs.make(file, admissible=True).reset().admissible[:2] == ("south", "north")
    _, records = over_a_server(file)
    assert not any(turn["effects"] for record in records for turn in record.turns)
    assert all(replay(record).equal and rescore(record).equal for record in records)


@pytest.mark.parametrize("name", ["CartPole-v1", "Taxi-v4"])
def test_a_wrapped_environment_passes_the_check(wrapped, name):
    file = wrapped(f"gymnasium:{name}", name[:4].lower() + "_checked")
    report = agentenvs.check_env(file, quick=True)
    assert report.passed, str(report)
    assert ("ranked boards", "yes" if name == "Taxi-v4" else "not declared") in [
        (use.purpose, use.answer) for use in report.uses
    ]
    said = str(report)
    assert "rewards.oracle: nobody knows whether the tasks can be solved" in said
    assert "rewards.reward_range: nobody can say how good a return is" in said


def test_a_record_is_replayed_without_the_engine_and_goes_on_with_it(wrapped):
    file = wrapped("gymnasium:CartPole-v1", "cartpole_two")
    env = Recorded(targets.make(file))
    env.reset(REF)
    for _ in range(4):
        env.step("left")
    twin = targets.make(file)
    (record,) = parse_records(env.to_bytes())
    twin.reset(REF, effects=foreign.Environment and _effects(record.header))
    assert twin._engine is None
    for line in record.turns:
        twin.step(line["action"], effects=_effects(line))
    assert twin._engine is None
    assert twin.step("right").observation.text == env.step("right").observation.text
    fork = twin.fork()
    assert fork.step("left").observation.text == env.step("left").observation.text
    assert twin.turn == 5


def _effects(line):
    from agentenvs.core.record import effects_of

    return effects_of(line["effects"])


def test_an_engine_that_lied_about_its_seed_ends_the_episode(wrapped):
    file = wrapped(f"{STRANGERS}:Dice", "dice_liar", lambda text: text.replace("seeded=False", "seeded=True"))
    env = targets.make(file)
    try:
        env.reset(REF)
        env.step("roll")
        twin = env.fork()
        result = twin.step("roll")
        assert (result.truncated, twin.ending, twin.verdict.success) == (True, "aborted", False)
        twin.close()
    finally:
        env.close()
    report = agentenvs.check_env(file, quick=True)
    assert not report.passed


@pytest.mark.parametrize(
    ("name", "expected"),
    [("Door", (True,) * 4), ("Dice", (False,) * 4), ("Wave", (False, True, True, True)), ("Crank", (True,) * 4)],
)
def test_what_an_object_can_do_is_found_out(wrapped, name, expected):
    file = wrapped(f"{STRANGERS}:{name}", f"{name.lower()}_asked")
    assert promises(file) == expected
    assert targets.spec_of(file).capabilities.execution == "process"


def test_an_object_over_our_server(wrapped):
    file = wrapped(f"{STRANGERS}:Door", "door_served")
    result, records = over_a_server(file, episodes=2)
    assert result.summary["success_rate"] == 1
    assert all(replay(record).equal for record in records)


@pytest.mark.parametrize(
    ("action", "ending", "said"),
    [("raise", "aborted", "The environment failed"), ("odd", "aborted", "The environment failed")],
)
def test_an_object_that_fails_ends_the_episode(wrapped, action, ending, said):
    env = targets.make(wrapped(f"{STRANGERS}:Crank", f"crank_{action}"))
    env.reset(REF)
    result = env.step(action)
    assert said in result.observation.text
    assert "secret" not in result.observation.text
    assert env.ending == ending
    env.close()


def test_an_object_that_hangs_is_undone(wrapped):
    file = wrapped(
        f"{STRANGERS}:Crank", "crank_hang", lambda text: text.replace("step_seconds=30.0", "step_seconds=0.5")
    )
    env = targets.make(file)
    env.reset(REF)
    assert "it took longer than 0.5 s" in env.step("hang").observation.text
    assert env.step("on").observation.text == "You say on."
    env.close()


@pytest.mark.parametrize(
    ("given", "reply"),
    [
        ("words", Reply("words")),
        (("a", 1, True, False, {}), Reply("a", 1.0, True)),
        (("a", 1, False, True, {}), Reply("a", 1.0, False, True)),
        (("a", 1, True, {}), Reply("a", 1.0, True)),
        (("a", None, False), Reply("a")),
        (("a", 2), Reply("a", 2.0)),
        ({"obs": [1], "reward": True, "done": 1}, Reply([1], 1.0, True)),
        (type("Result", (), {"observation": "o", "reward": 3, "terminated": False})(), Reply("o", 3.0)),
        ({"answer": 1}, Reply({"answer": 1})),
    ],
)
def test_forms_of_a_step(given, reply):
    assert reply_of(given) == reply


@pytest.mark.parametrize("given", [(), (1,), ("a", "b", False)])
def test_what_is_no_step(given):
    with pytest.raises(EngineError):
        reply_of(given)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nothing", "cannot be wrapped"),
        ("ftp+http://127.0.0.1", "cannot be wrapped"),
        ("gymnasium:Nowhere-v0", "gymnasium makes no 'Nowhere-v0'"),
        ("gymnasium:Pendulum-v1", "the actions of Pendulum-v1 are a Box space"),
        (f"{STRANGERS}:Bare", "it has no reset()"),
        (f"{STRANGERS}:Missing", "cannot be found"),
        ("openenv+http://127.0.0.1:9", "cannot be reached"),
        ("mcp+http://127.0.0.1:9/mcp", "cannot be reached"),
    ],
)
def test_what_cannot_be_wrapped_gets_a_message(target, said):
    with pytest.raises(agentenvs.core.errors.UserError) as refused:
        wrapping.look(target)
    assert said in str(refused.value)


# ---- OpenEnv and MCP -------------------------------------------------------------------------------------------------


def again_without_the_server(records):
    """What another server answered are effects: its records replay and rescore when it has long gone."""
    for record in records:
        assert rescore(record).equal
        assert replay(record).divergence is None
        forged = copy.deepcopy(record)
        forged.turns[0]["effects"][0]["value"]["shown"] = "something else"
        assert replay(forged).divergence.field == "observation"


def test_an_openenv_server_over_ours(wrapped):
    with peers.openenv_like() as url:
        file = wrapped(f"openenv+{url}", "echo_one")
        assert targets.spec_of(file).id == "openenv/EchoEnv-v0"
        assert promises(file) == (False,) * 4
        _, records = over_a_server(file, episodes=2, limit=4)
    assert all(turn["effects"][0]["kind"] == foreign.REPLY for record in records for turn in record.turns)
    again_without_the_server(records)


@pytest.mark.parametrize(
    ("action", "text", "valid", "ending"),
    [
        ("hello", "hello", True, None),
        ({"tool": "act", "arguments": {"message": "hi"}}, "hi", True, None),
        ({"tool": "act", "arguments": {"massage": "hi"}}, "no such field", False, None),
        ({"tool": "run", "arguments": {}}, "The tools are: act.", False, None),
        ("bye", "bye", True, "terminated"),
        ("fail", "The environment failed. The episode ends here.", False, "aborted"),
        ("nonsense", "The environment failed. The episode ends here.", False, "aborted"),
        ("crash", "The environment failed. The episode ends here.", False, "aborted"),
    ],
)
def test_what_an_openenv_server_says(wrapped, action, text, valid, ending):
    with peers.openenv_like() as url:
        env = targets.make(wrapped(f"openenv+{url}", "echo_two"))
        assert env.reset(REF).text == "ready"
        result = env.step(action)
        env.close()
    assert (result.observation.text, not result.info["invalid"], env.ending) == (text, valid, ending)


MOVES = {
    "type": "object",
    "properties": {"message": {"$ref": "#/$defs/Move", "description": "Where to."}},
    "required": ["message"],
    "$defs": {"Move": {"enum": ["UP", "DOWN"], "type": "string"}},
}
TREE = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}}


@pytest.mark.parametrize(
    ("schema", "read"),
    [
        (MOVES, {"message": {"enum": ["UP", "DOWN"], "type": "string", "description": "Where to."}}),
        ({"$ref": "#/$defs/Tree", "$defs": {"Tree": TREE}}, TREE["properties"]),
        ({"properties": {"definitions": {"$ref": "elsewhere"}}}, {"definitions": {"$ref": "elsewhere"}}),
    ],
)
def test_schemas_are_read_where_their_parts_are_defined(schema, read):
    found = wrapping.inlined(schema)
    assert found["properties"] == read
    assert ("$defs" in found) == ("$ref" in str(read) and "$defs" in schema)


def test_the_words_an_openenv_server_takes_are_its_actions(wrapped):
    with peers.openenv_like(MOVES) as url:
        env = targets.make(wrapped(f"openenv+{url}", "moves_one"), admissible=True)
        assert env.reset(REF).admissible == ("UP", "DOWN")
        assert env.step("UP").observation.text == "UP"
        assert env.step({"tool": "act", "arguments": {"message": "DOWN"}}).observation.text == "DOWN"
        assert env.step("left").observation.text == "Say one of: UP, DOWN."
        env.close()


def test_an_openenv_server_that_goes_away_ends_the_episode_and_the_record_replays(wrapped):
    with peers.openenv_like() as url:
        file = wrapped(f"openenv+{url}", "echo_gone")
        env = Recorded(targets.make(file))
        env.reset(REF)
        env.step("hello")
        (before,) = parse_records(env.to_bytes())
    result = env.step("hello again")
    assert (result.truncated, env.env.ending, env.env.verdict.success) == (True, "aborted", False)
    (record,) = parse_records(env.to_bytes())
    assert replay(record).equal
    lost = targets.make(file)  # what a server does that was restarted: the world comes back, its other side does not
    lost.reset(REF, effects=_effects(before.header))
    lost.step("hello", effects=_effects(before.turns[0]))
    assert (lost.observation.text, lost.ending) == ("hello", None)
    lost.step("hello again")
    assert lost.ending == "aborted"
    report = agentenvs.check_env(file, quick=True)
    assert {use.purpose: use.answer for use in report.uses}["crash-safe training"] != "yes"


def test_an_openenv_server_that_has_gone(wrapped):
    with peers.openenv_like() as url:
        file = wrapped(f"openenv+{url}", "echo_three")
    with pytest.raises(agentenvs.core.errors.ContractError, match="cannot begin an episode"):
        targets.make(file).reset(REF)


SCORE = 'return float(any(turn["reply"]["shown"] == "5" for turn in played))'


def test_an_mcp_server_over_ours(wrapped):
    with peers.mcp_like() as url:
        file = wrapped(f"mcp+{url}", "calc_one", lambda text: text.replace("return 0.0", SCORE))
        spec = targets.spec_of(file)
        assert (spec.id, [tool.name for tool in spec.tools]) == ("mcp/Calc-v0", ["add", "note"])
        assert spec.tools[0].examples == ({"a": 1, "b": 1},)
        _, records = over_a_server(file, episodes=2, limit=4)
        env = targets.make(file)
        assert env.reset(REF).text == "Add numbers."
        assert env.step({"tool": "add", "arguments": {"a": 2, "b": 3}}).observation.text == "5"
        assert env.step({"tool": "add", "arguments": {"a": "x"}}).observation.text == "Error: two numbers"
        assert env.step({"tool": "note", "arguments": {}}).observation.text == "[image]"
        assert env.step({"end": "done"}).reward == 1.0
        env.close()
    again_without_the_server(records)


def test_an_mcp_server_asks_for_a_score(wrapped):
    with peers.mcp_like() as url:
        file = wrapped(f"mcp+{url}", "calc_two")
        assert "WRITE THIS" in Path(file).read_text()
        env = targets.make(file)
        env.reset(REF)
        env.step({"tool": "add", "arguments": {"a": 2, "b": 3}})
        assert env.finish("abandoned").reward == 0
        env.close()


def test_tools_with_kept_names_are_refused(monkeypatch):
    monkeypatch.setattr(peers, "TOOLS", [{"name": "reset"}])
    with peers.mcp_like() as url, pytest.raises(agentenvs.core.errors.ConfigError, match="has a tool 'reset'"):
        wrapping.look(f"mcp+{url}")


def test_an_engine_blocks_no_loop(wrapped):
    """A foreign environment runs in a thread of the server, not on its loop."""
    assert targets.spec_of(wrapped("gymnasium:CartPole-v1", "cartpole_four")).capabilities.execution == "thread"
    assert asyncio.iscoroutinefunction(foreign.Foreign._act) is False


@pytest.mark.peer
def test_a_stock_openenv_server(wrapped, tmp_path):
    python, port = peers.peer_python(), peers.free_port()
    subprocess.run(
        [str(Path(python).parent / "openenv"), "init", "echo"], cwd=tmp_path, check=True, capture_output=True
    )
    with peers.process([python, "-m", "uvicorn", "server.app:app", "--port", str(port)], tmp_path / "echo", port):
        url = f"http://127.0.0.1:{port}"
        assert openenv.action_schema(url)["required"] == ["message"]
        result, records = over_a_server(wrapped(f"openenv+{url}", "echo_stock"), limit=5)
    assert result.summary["mean_return"] > 0
    assert all(record.turns and replay(record).equal for record in records)


@pytest.mark.peer
def test_a_stock_openenv_server_of_tools(wrapped, tmp_path):
    python, port = peers.peer_python(), peers.free_port()
    (tmp_path / "tools_app.py").write_text(peers.TOOL_SERVER)
    with peers.process([python, "-m", "uvicorn", "tools_app:app", "--port", str(port)], tmp_path, port):
        file = wrapped(f"openenv+http://127.0.0.1:{port}", "echo_tools")
        assert [tool.name for tool in targets.spec_of(file).tools] == ["echo_message"]
        _, records = over_a_server(file, limit=5)
    assert "hello" in str(records[0].turns[0]["effects"])
    assert all(replay(record).equal and rescore(record).equal for record in records)


@pytest.mark.peer
@pytest.mark.parametrize("variable", ["AGENTENVS_PEER_PYTHON", "AGENTENVS_PEER_MCP"])
def test_a_stock_mcp_server(wrapped, tmp_path, variable):
    python, port = peers.peer_python(variable, "mcp"), peers.free_port()
    (tmp_path / "serving.py").write_text(peers.MCP_SERVER)
    with peers.process([python, "serving.py", str(port)], tmp_path, port):
        url = f"http://127.0.0.1:{port}/mcp"
        assert mcp.name_and_tools(url)[0] == "stock"
        name = f"tools_{variable.lower()}"
        file = wrapped(f"mcp+{url}", name, lambda text: text.replace("return 0.0", SCORE.replace("5", "2")))
        result, records = over_a_server(file, limit=5)
    assert result.summary["success_rate"] == 1
    assert all(replay(record).equal for record in records)
