"""The yardsticks win what they should, in both text versions, and see no more than they may."""

from pathlib import Path

import pytest

from agentenvs.core.errors import PolicyError
from agentenvs.core.observation import Observation, TextBlock
from agentenvs.core.policy import Privileged
from agentenvs.core.task import Task, TaskRef
from agentenvs.envs.household import players, prove
from agentenvs.envs.household.belief import Belief
from agentenvs.envs.household.layout import PROFILES, Layout
from agentenvs.envs.household.spec import SPEC
from agentenvs.envs.household.world import World
from agentenvs_scenarios.household.builtin import NAMES, builtin
from agentenvs_scenarios.household.load import load_game
from tests.envs.household.rooms import room

TEXTS = ("0.3", "0.4")


def episode(policy, scenario, profile="compat", text="0.4", listed=False, limit=50):
    """Play an episode and return its commands, up to the win or the limit, and whether it was won."""
    world = World(Layout(scenario, profile, text))
    policy.reset(SPEC, Task(SPEC.id, TaskRef("builtin", 0), {"profile": profile, "text": text}))
    if isinstance(policy, Privileged):
        policy.reveal(scenario)
    reply, said = world.opening(), []
    while not world.won and len(said) < limit:
        said.append(policy.act(Observation((TextBlock(reply),), world.admissible() if listed else None)))
        reply, _ = world.step(said[-1])
    return said, world.won


def handed(shared_data: Path):
    games = sorted((shared_data / "household" / "json_2.1.1").glob("*/*/*/game.tw-pddl"))
    assert len(games) == 34
    return [load_game(game) for game in games]


@pytest.mark.parametrize("profile", PROFILES)
def test_oracle_plays_par(shared_data: Path, profile):
    for scenario in [*map(builtin, range(len(NAMES))), *handed(shared_data)]:
        for text in TEXTS:
            said, won = episode(players.oracle(), scenario, profile, text)
            assert won
            assert len(said) == prove.par(Layout(scenario, profile))


@pytest.mark.parametrize("listed", [False, True], ids=["plain", "listed"])
@pytest.mark.parametrize("text", TEXTS)
def test_expert_wins_every_handed_game(shared_data: Path, text, listed):
    lengths = []
    for scenario in handed(shared_data):
        said, won = episode(players.expert(), scenario, text=text, listed=listed, limit=150)
        assert won, scenario.name
        assert said[0] == "look"
        lengths.append(len(said))
    assert sum(length <= 50 for length in lengths) == 33
    assert 15 <= sum(lengths) / len(lengths) <= 17


@pytest.mark.parametrize("player", [players.expert, players.prior])
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("listed", [False, True], ids=["plain", "listed"])
def test_seekers_win_the_builtin_rooms(player, profile, text, listed):
    for index in range(len(NAMES)):
        _, won = episode(player(), builtin(index), profile, text, listed)
        assert won, NAMES[index]


def test_expert_needs_no_list_and_says_the_same_twice():
    first, _ = episode(players.expert(), builtin(10))
    again, _ = episode(players.expert(), builtin(10))
    assert first == again


def test_listed_commands_spare_the_expert_failed_steps():
    steps = {False: 0, True: 0}
    for index in range(len(NAMES)):
        for listed in steps:
            said, _ = episode(players.expert(), builtin(index), listed=listed)
            steps[listed] += len(said)
        world = World(Layout(builtin(index)))
        assert all(world.step(command)[1][3] is None for command in said)
    assert steps[True] < steps[False]


def test_prior_goes_where_the_table_says():
    # Of a kitchen's eggs 25 % lie in the fridge; its plates are in cabinets (42 %, shared by two), then on countertops.
    for goal, likely in (
        (("pick_and_place_simple", "egg", "sidetable"), "go to fridge 1"),
        (("pick_and_place_simple", "plate", "shelf"), "go to countertop 1"),
    ):
        said, _ = episode(players.prior(), room(goal), limit=1)
        assert said == [likely]


@pytest.mark.parametrize("text", TEXTS)
def test_random_and_noop_lose(text):
    for index in range(len(NAMES)):
        assert not episode(players.noop(), builtin(index), text=text)[1]
        assert not episode(players.random(), builtin(index), text=text, listed=True)[1]


def test_random_is_the_same_for_the_same_task():
    one, other = (episode(players.random(), builtin(0), listed=True)[0] for _ in range(2))
    assert one == other
    assert len(set(one)) > 10


def test_random_says_what_it_needs():
    with pytest.raises(PolicyError, match="admissible=true"):
        episode(players.random(), builtin(0))


def test_oracle_refuses_to_guess():
    policy = players.oracle()
    policy.reset(SPEC, Task(SPEC.id, TaskRef("builtin", 0)))
    policy.reveal(builtin(0))
    with pytest.raises(PolicyError, match="lost its place"):
        policy.act(Observation((TextBlock("You are somewhere else."),)))


def test_oracle_looks_around_where_nothing_can_be_done():
    said, won = episode(players.oracle(), room(("pick_and_place_simple", "teddybear", "shelf")), limit=3)
    assert (said, won) == (["look"] * 3, False)


def test_seekers_survive_a_sentence_of_a_person_and_no_text_at_all():
    for player in (players.expert(), players.prior()):
        player.reset(SPEC, Task(SPEC.id, TaskRef("builtin", 0)))
        for text in ("Your task is to: make it nice here.", "", "Nothing happens."):
            assert player.act(Observation((TextBlock(text),))) == "look"


def test_seekers_never_take_what_they_cannot_put_down():
    for player in (players.expert, players.prior):
        said, won = episode(player(), room(("pick_clean_then_place_in_recep", "apple", "sidetable")))
        assert won
        assert not any("teddybear" in command for command in said)


@pytest.mark.parametrize("banner", ["-= Welcome to TextWorld, ALFRED! =-\n\n", ""])
@pytest.mark.parametrize("gap", ["\n\n", "\n"])
def test_belief_reads_the_opening_with_or_without_its_banner(banner, gap):
    text = (
        f"{banner}You are in the middle of a room. Looking quickly around you, you see a shelf 2, a shelf 1, "
        f"and a bed 1.{gap}Your task is to: put some book on shelf."
    )
    belief = Belief(text)
    assert belief.receptacles == ("shelf 2", "shelf 1", "bed 1")
    assert belief.meaning == ("pick_and_place_simple", "book", "shelf")


def test_belief_learns_what_stands_together_from_a_refusal():
    belief = Belief(
        "You are in the middle of a room. Looking quickly around you, you see a drawer 2, and a drawer 1.\n\n"
    )
    belief.update("go to drawer 1", "You arrive at loc 3. The drawer 1 is closed.")
    assert (belief.version, belief.closed, belief.is_here("drawer 2")) == ("0.3", {"drawer 1"}, False)
    belief.update("go to drawer 2", "Nothing happens.")
    assert belief.around() == ["drawer 2", "drawer 1"]
    belief.update("open drawer 2", "You open the drawer 2. The drawer 2 is open. In it, you see a cd 1, and a pen 2.")
    assert belief.find("pen") == [("pen 2", "drawer 2")]
    belief.update("take pen 2 from drawer 2", "You pick up the pen 2 from the drawer 2.")
    assert (belief.held, belief.find("pen")) == ("pen 2", [])
    belief.update("take cd 1 from drawer 2", "Nothing happens.")
    assert belief.find("cd") == []
