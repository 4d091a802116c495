"""The yardsticks see no more than they may, and reach what they should."""

import pytest

from agentenvs.core import registry
from agentenvs.core.observation import Observation, TextBlock
from agentenvs.core.policy import Privileged
from agentenvs.core.task import Task, TaskRef
from agentenvs.envs.searchworld import players, shortcuts
from agentenvs.envs.searchworld.expert import Expert
from agentenvs.envs.searchworld.spec import SPEC
from agentenvs.harness.policies import resolve, wanted_options
from agentenvs.harness.rollout import play


def episodes(name, count, **options):
    for index in range(count):
        policy = resolve(name, SPEC)()
        env = registry.make("searchworld", people="500", **{**wanted_options(policy, SPEC), **options})
        yield env, play(env, policy, TaskRef("train", index)).summary


def test_every_player_can_be_made_and_only_the_oracle_is_privileged():
    made = {name: registry.load(factory)() for name, factory in SPEC.players.items()}
    assert [name for name, player in made.items() if isinstance(player, Privileged)] == ["oracle"]


def test_the_oracle_plays_par_and_its_answers_are_grounded():
    for env, summary in episodes("oracle", 20, evidence=True):
        assert summary.success
        assert summary.turns == env.labels()["par"]
        assert env.verdict.components["grounded"] == 1.0


def test_the_expert_answers_what_it_reads():
    seen = [(summary.success, env.verdict.components["seen"]) for env, summary in episodes("expert", 30)]
    assert sum(success for success, _ in seen) >= 27
    assert all(shown == 1.0 for success, shown in seen if success and shown)


def test_the_expert_gives_up_where_it_understands_nothing():
    expert = Expert()
    expert.reset(SPEC, Task(SPEC.id, TaskRef("train", 0), {}, "What is love?"))
    said = expert.act(Observation((TextBlock(""),)))
    assert said == {"tool": "answer", "arguments": {"answers": []}}
    assert expert.act(Observation((TextBlock(""),))) == "search: nothing"


@pytest.mark.parametrize(("name", "turns"), [("one_query", 2), ("two_query", 3)])
def test_shortcuts_take_their_searches_and_answer(name, turns):
    found = [summary for _, summary in episodes(name, 20)]
    assert {summary.turns for summary in found} == {turns}
    assert sum(summary.success for summary in found) <= 1


def test_noop_earns_nothing_until_the_limit():
    ((_, summary),) = episodes("noop", 1, limit=40)
    assert (summary.turns, summary.reward, summary.ending) == (40, 0.0, "truncated")


def test_players_replay_alike():
    for name in ("random", "frequent"):
        first, second = ([summary.record for _, summary in episodes(name, 5)] for _ in range(2))
        assert first == second


def test_a_guess_is_the_first_title_that_is_new_or_its_value():
    articles = [("Bren Dal", "By trade they are a tesmar."), ("Vrim Tel", "By trade they are a lurkan. No more.")]
    assert shortcuts.guess("Who is the mentor of Bren Dal?", articles) == ["Vrim Tel"]
    assert shortcuts.guess("What is the trade of Bren Dal?", articles) == ["tesmar"]
    assert shortcuts.guess("How many pupils of Bren Dal are there?", articles) == ["2"]
    assert shortcuts.guess("Who is it?", []) == []
    assert shortcuts.second_query(["Bren Dal", "Vrim Tel"], "Who is the mentor of Bren Dal?") == "Vrim Tel"
    assert not shortcuts.leaked(["A"], [])
    assert players.frequent() is not players.frequent()
