"""``@world``: a plain class becomes an environment, and what it must not do is told."""

from __future__ import annotations

import pytest

from agentenvs.api import Ended, Invalid, TaskRef, Verdict, world
from agentenvs.core.errors import ContractError
from agentenvs.core.record import Recorded, parse_records
from agentenvs.core.replay import replay, rescore
from agentenvs.harness.check import check_env


class Plain:
    """Say  it
    twice."""

    def task(rng):
        return {"word": rng.choice(["yes", "no"])}

    def reset(self, task):
        self.word, self.said = task["word"], []
        return "Say it twice."

    def step(self, action):
        if action == "odd":
            return 7
        if action != self.word:
            return Invalid("No.")
        self.said.append(action)
        return Ended("Done.") if len(self.said) == 2 else "Again."

    def score(self):
        return len(self.said) / 2


Twice = world("tests/SayTwice-v0", steps=5)(Plain)


def _word(env):
    return env.current.hidden["word"]


def test_names_come_from_the_id():
    spec = Twice.spec
    assert (spec.slug, spec.title, spec.description) == ("say_twice", "Say Twice", "Say it twice.")
    assert spec.eval_split == "dev"
    assert [option.name for option in spec.options] == ["limit"]


def test_an_episode_and_its_record():
    env = Recorded(Twice())
    env.reset(TaskRef("train", 3))
    word = _word(env.env)
    assert env.step("maybe").info["invalid"]
    assert env.step(word).reward == 0
    result = env.step(word)
    assert (result.reward, result.terminated) == (1.0, True)
    (record,) = parse_records(env.to_bytes())
    assert replay(record, Twice()).equal
    assert rescore(record, Twice()).equal


def test_a_part_of_the_way_is_worth_a_part():
    env = Twice()
    env.reset()
    env.step(_word(env))
    verdict = env.finish("abandoned")
    assert (verdict.reward, verdict.success) == (0.5, False)


def test_a_snapshot_holds_the_attributes():
    env, twin = Twice(), Twice()
    env.reset()
    env.step(_word(env))
    twin.restore(env.snapshot())
    assert twin.world.said == env.world.said
    assert twin.state_key == env.state_key


def test_a_verdict_may_be_returned():
    class Judged(Plain):
        def score(self):
            return Verdict(0.25, False, {"said": 0.25}, ("half",))

    env = world("tests/Judged-v0", steps=5)(Judged)()
    env.reset()
    verdict = env.finish("abandoned")
    assert (verdict.reward, verdict.components, verdict.reasons) == (0.25, {"said": 0.25}, ("half",))
    assert verdict.facts["said"] == []


@pytest.mark.parametrize("value", [{1: 2}, {"a": {1}}, object(), float("nan"), {"deep": [{2: 3}]}])
def test_attributes_are_json(value):
    class Odd(Plain):
        def reset(self, task):
            self.odd = value
            return super().reset(task)

    env = world("tests/Odd-v0", steps=5)(Odd)()
    with pytest.raises(ContractError, match="the attributes of Odd are no JSON values"):
        env.reset()


def test_what_is_shown_is_no_secret():
    class Open(Plain):
        def task(rng):
            return {"word": rng.choice(["yes", "no"]), "place": rng.choice(["here", "there"])}

        def reset(self, task):
            self.place = task["place"]
            return f"{super().reset(task)} You are {self.place}."

    made = world("tests/Open-v0", steps=5, shown=["place"])(Open)
    form = made().scenario("train", 0).to_json()
    assert (set(form["hidden"]), set(form["shown"])) == ({"word"}, {"place"})
    report = check_env(made, quick=True)
    assert report.finding("twins").status == "passed"
    with pytest.raises(ContractError, match="draws no 'colour'"):
        world("tests/Open-v0", steps=5, shown=["colour"])(Open)().scenario("train", 0)


def test_a_task_is_a_json_object():
    class Odd(Plain):
        def task(rng):
            return {1: 2}

    with pytest.raises(ContractError, match=r"what Odd\.task returns"):
        world("tests/Odd-v0", steps=5)(Odd)().reset()


def test_a_step_returns_words():
    env = Twice()
    env.reset()
    with pytest.raises(ContractError, match=r"Plain\.step returned a int"):
        env.step("odd")


def test_a_missing_method_is_told():
    with pytest.raises(ContractError, match=r"Bare has no task\(\)"):
        world("tests/Bare-v0", steps=5)(type("Bare", (), {}))
