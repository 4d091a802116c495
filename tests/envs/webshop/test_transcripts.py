"""Every recorded episode of the original replays in ``original``: all pages, clickables, rewards and ends.

The lists of products that the original's search engine found are fed back as effects, from the recorded pages.
"""

import pytest

from agentenvs.core import registry
from agentenvs.core.errors import DataError, MissingExtraError
from agentenvs.core.task import TaskRef
from agentenvs.core.turn import Effect
from agentenvs.envs.webshop import shops
from agentenvs.envs.webshop.env import EFFECT
from agentenvs.envs.webshop.rules import START
from agentenvs_scenarios.webshop import nouns
from tests.envs.webshop import recorded

pytestmark = pytest.mark.skipif(recorded.recording() is None, reason=recorded.ABSENT)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return recorded.folder(tmp_path_factory.mktemp("webshop"))


@pytest.fixture(scope="module")
def table(folder):
    """The nouns of all titles, tagged as ``agentenvs prepare`` does it; None where there is no tagger."""
    shop, _ = shops.loaded_shop(folder, None)
    try:
        return nouns.tag(shop.product(at).title for at in range(len(shop)))
    except MissingExtraError:
        return None


def play(env, number, episode):
    """Play a recorded episode and yield, for each step, what is and what was."""
    first = env.reset(TaskRef("goals_recorded", number))
    assert first.text == episode["ep"][0]["obs"]
    assert list(env.world.labels()) == episode["ep"][0]["actions"]["clickables"]
    for step in episode["ep"][1:]:
        listed = recorded.listed(step)
        result = env.step(step["action"], effects=[] if listed is None else [Effect(EFFECT, listed)])
        if step["actions"] is not None:
            assert list(env.world.labels()) == step["actions"]["clickables"], step["action"]
            assert (env.world.page == START) == step["actions"]["has_search_bar"]
        yield result, step


def test_pages_and_clickables_replay_to_the_byte(folder, monkeypatch):
    monkeypatch.setattr(shops, "table_of", lambda shop, given: nouns.WORDS)
    env = registry.make("webshop", profile="original", data=str(folder), limit=0)
    steps = 0
    for number, episode in enumerate(recorded.recording()["episodes"]):
        for result, step in play(env, number, episode):
            steps += 1
            assert result.terminated == step["done"]
            if not step["done"]:  # the last page prints the reward, which needs the table of nouns
                assert result.observation.text == step["obs"], (number, step["action"])
    assert steps == 642


def test_rewards_and_last_pages_replay_too(folder, table, monkeypatch):
    if table is None:
        pytest.skip("no spaCy with its small English model here: pip install 'agentenvs[webshop-original]'")
    monkeypatch.setattr(shops, "table_of", lambda shop, given: table)
    env = registry.make("webshop", profile="original", data=str(folder), limit=0)
    ended = 0
    for number, episode in enumerate(recorded.recording()["episodes"]):
        for result, step in play(env, number, episode):
            assert (result.observation.text, result.reward) == (step["obs"], step["reward"]), number
            ended += step["done"]
    assert ended == 116


def test_goals_stand_in_the_originals_order(folder):
    _, splits = shops.loaded_shop(folder, None)
    goals = splits["synthetic"].goals
    assert (len(goals), len(splits["human"].goals)) == (6910, 13)
    assert [len(splits[f"synthetic_{part}"].goals) for part in ("test", "dev", "train")] == [500, 1000, 5410]
    for episode in recorded.recording()["episodes"]:
        want = goals[episode["session"]].wants[0]
        assert (want.product, dict(want.options)) == (episode["goal"]["asin"], episode["goal"]["goal_options"])


def test_our_own_search_finds_what_theirs_found(folder):
    """Hold the overlap that the card states: all but one of the first ten, the same first one, 87 % in one order."""
    shop, _ = shops.loaded_shop(folder, None)
    search = shops.search_of(shop)
    shared = total = equal = first = searches = 0
    for episode in recorded.recording()["episodes"]:
        for step in episode["ep"][1:]:
            if step["action"].startswith("search[") and " [SEP] Page 1 (" in step["obs"]:
                theirs = recorded.listed(step)[1]
                query = step["action"].partition("[")[2].rpartition("]")[0].lower()
                ours = [shop.product(index).id for index in search(query)[:10]]
                shared, total = shared + len(set(ours) & set(theirs)), total + len(theirs)
                equal, first, searches = equal + (ours == theirs), first + (ours[:1] == theirs[:1]), searches + 1
    assert searches == 152
    assert (shared, total) == (1505, 1506)
    assert equal == 132
    assert first == searches


def test_the_missing_table_of_nouns_is_told_before_anything_is_played(folder, tmp_path):
    env = registry.make("webshop", profile="original", data=str(folder), prepared=str(tmp_path))
    with pytest.raises(DataError) as raised:
        env.check_ref(TaskRef("synthetic_test", 0))
    assert "agentenvs prepare webshop" in str(raised.value.fix)
    env.check_ref(TaskRef("train", 0))


@pytest.mark.parametrize("profile", ["compat", "native"])
def test_the_oracle_wins_loaded_goals(folder, profile):
    env = registry.make("webshop", profile=profile, data=str(folder))
    oracle = registry.load(env.spec.players["oracle"])()
    earned = []
    for ref in [TaskRef("synthetic_test", index) for index in range(0, 500, 10)]:
        observation = env.reset(ref)
        oracle.reset(env.spec, env.task())
        oracle.reveal(env.current)
        while env.ending is None:
            observation = env.step(oracle.act(observation)).observation
        earned.append(env.verdict.reward)
    if profile == "native":
        assert min(earned) == 1.0
    assert sum(earned) / len(earned) > 0.95
