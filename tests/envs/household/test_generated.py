"""Generated households under the rules: proved, won by the oracle and the expert, by nobody who does nothing."""

from __future__ import annotations

import tomllib
from collections import Counter
from importlib import resources

import pytest

from agentenvs.core import registry
from agentenvs.core.canon import canonical
from agentenvs.core.errors import ConfigError, ContractError
from agentenvs.core.policy import Privileged
from agentenvs.core.record import Recorded, parse_records
from agentenvs.core.replay import replay, rescore
from agentenvs.core.sealed import VARIABLE
from agentenvs.core.streams import scenario_key
from agentenvs.core.task import TaskRef
from agentenvs.envs.household import propose as proposing
from agentenvs.envs.household.layout import Layout
from agentenvs.envs.household.propose import proposal, propose
from agentenvs.envs.household.prove import Proof, par
from agentenvs.envs.household.world import World
from agentenvs.harness.policies import resolve
from agentenvs.harness.rollout import play
from agentenvs_scenarios.household.ladder import RUNGS
from agentenvs_scoring.cards import load
from agentenvs_scoring.probes import attack
from agentenvs_scoring.probes.household import PROBES

SECRET = "c0ffee" * 8


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(VARIABLE, SECRET)
    return SECRET


def won(player: str, split: str, indices: range, **options) -> int:
    """Return how many episodes a player wins."""
    env = registry.make("household", **options)
    wins = 0
    for index in indices:
        observation = env.reset(TaskRef(split, index))
        policy = registry.load(env.spec.players[player])()
        policy.reset(env.spec, env.task())
        if isinstance(policy, Privileged):
            policy.reveal(env.current)
        while env.ending is None:
            observation = env.step(policy.act(observation)).observation
        wins += env.verdict.success
        assert env.verdict.reward == env.verdict.success
    return wins


@pytest.mark.parametrize("difficulty", ["mixed", *RUNGS])
def test_a_proof_is_a_solution(difficulty):
    for index in range(40):
        made = proposal("train", index, difficulty)
        world = World(Layout(made.scenario))
        for command in made.proof.plan:
            assert not world.won
            world.step(command)
        assert world.won
        assert made.proof.par == len(made.proof.plan) == par(Layout(made.scenario))


def test_the_proof_is_no_part_of_the_scenario():
    made = proposal("train", 0, "mixed")
    assert not {"proof", "par", "plan", "solvable"} & {*made.scenario.to_json()}
    assert made.proof == propose(scenario_key("household", "train", 0), "train", "mixed").proof


def test_what_cannot_be_proved_is_proposed_again(monkeypatch):
    refused = []

    def doubt(layout):
        refused.append(layout.scenario.digest)
        return Proof(len(refused) > 2, 1, ())

    key = scenario_key("household", "train", 1)
    monkeypatch.setattr(proposing, "prove", doubt)
    made = propose(key, "train", "mixed")
    assert len(set(refused)) == 3
    assert made.scenario.digest == refused[-1]
    monkeypatch.setattr(proposing, "prove", lambda layout: Proof(False, None, ()))
    with pytest.raises(ContractError, match="none of 20 proposals"):
        propose(key, "train", "mixed")


def test_par_grows_along_the_ladder():
    means = {name: sum(proposal("train", index, name).proof.par for index in range(300)) / 300 for name in RUNGS}
    assert means["easiest"] < means["medium"] < means["hard"] < means["hardest"]
    assert means["easiest"] >= 5.5
    assert means["hardest"] <= 7.5


def test_labels_tell_kind_par_and_rung():
    env = registry.make("household")
    env.reset(TaskRef("train", 3))
    made = proposal("train", 3, "mixed")
    assert env.labels() == {"kind": made.scenario.goal.task, "par": made.proof.par, "difficulty": made.rung}
    env.reset(TaskRef("builtin", 3))
    assert "difficulty" not in env.labels()


@pytest.mark.parametrize("difficulty", ["mixed", "hardest"])
def test_a_record_of_a_generated_room_replays(difficulty):
    env = registry.make("household", difficulty=difficulty)
    played = play(env, resolve("expert", env.spec)(), TaskRef("train", 12345678901234567890))
    record = parse_records(played.record)[0]
    assert record.header["options"]["difficulty"] == difficulty
    assert replay(record).equal
    assert rescore(record).equal


def test_a_sealed_room_needs_the_secret_before_anything_begins(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    env = registry.make("household")
    for ask in (env.check_ref, env.reset):
        with pytest.raises(ConfigError, match=f"{VARIABLE} is not set"):
            ask(TaskRef("sealed", 0))
    assert env.spec.to_json()["splits"][3]["sealed"] is True


def test_the_secret_is_in_nothing_that_is_written(secret, monkeypatch):
    env = registry.make("household")
    recorded = Recorded(env)
    recorded.reset(TaskRef("sealed", 0))
    recorded.step("look")
    recorded.finish("abandoned")
    written = recorded.to_bytes().decode() + env.snapshot().decode() + canonical(env.spec.to_json()) + env.current.name
    assert secret not in written
    assert bytes.fromhex(secret).hex() not in written
    first = env.current.digest
    monkeypatch.setenv(VARIABLE, "ab" * 16)
    env.reset(TaskRef("sealed", 0))
    assert env.current.digest != first


@pytest.mark.parametrize(("split", "size"), [("train", 2000), ("dev", 200), ("test", 500), ("sealed", 500)])
def test_the_oracle_wins_all_and_doing_nothing_none(split, size, secret):
    assert won("oracle", split, range(size)) == size
    assert won("noop", split, range(size)) == 0


@pytest.mark.parametrize(("split", "size"), [("dev", 200), ("test", 500)])
def test_the_expert_wins_all_within_150(split, size):
    assert won("expert", split, range(size), limit=150) == size


@pytest.mark.parametrize("difficulty", RUNGS)
@pytest.mark.parametrize("profile", ["original", "compat", "native"])
def test_every_rung_is_won_in_every_profile(difficulty, profile):
    options = {"difficulty": difficulty, "profile": profile}
    assert won("oracle", "dev", range(40), **options) == 40
    assert won("expert", "dev", range(40), limit=150, **options) == 40


def test_random_play_wins_less_than_one_in_a_hundred():
    assert won("random", "test", range(500), admissible=True) < 5


def test_tasks_and_rooms_are_all_there():
    kinds = Counter(proposal("test", index, "mixed").scenario.goal.task for index in range(500))
    assert len(kinds) == 6
    assert min(kinds.values()) >= 15


@pytest.mark.parametrize("probe", PROBES, ids=[probe.name for probe in PROBES])
def test_no_hack_earns_more_than_its_ceiling(probe):
    for difficulty in ("mixed", "hardest"):
        env = registry.make("household", **{"limit": 120, "difficulty": difficulty, **probe.options})
        for index in range(12):
            report = attack(env, probe, TaskRef("dev", index))
            assert report.held, (difficulty, index, report)


def test_catalogue_and_card_say_what_spec_and_bands_say():
    folder = resources.files("agentenvs_scenarios.household")
    catalogue = tomllib.loads(folder.joinpath("catalogue.toml").read_text("utf-8"))
    said = {name: (row["size"] or None, row["sealed"], row["description"]) for name, row in catalogue["splits"].items()}
    spec = registry.spec("household")
    assert said == {split.name: (split.size, split.sealed, split.description) for split in spec.splits}
    card = folder.joinpath("CARD.md").read_text("utf-8")
    bands = [band for band in load("household").bands if (band.player, band.limit) == ("expert", 150)]
    steps = {band.options["difficulty"]: band.steps for band in bands if "difficulty" in band.options}
    assert {*steps} == {*RUNGS}
    for rung, mean in steps.items():
        row = next(line for line in card.splitlines() if line.startswith(f"| `{rung}` |"))
        assert abs(float(row.split("|")[4]) - mean) < 0.06
        assert f"| {catalogue['difficulty'][rung]['weight']} % |" in row
