"""Scenarios go to JSON and back, hide what they must, and refuse nonsense."""

import json
from dataclasses import fields, replace

import pytest

from agentenvs.core.errors import DataError
from agentenvs_scenarios.household import sentences
from agentenvs_scenarios.household.builtin import NAMES, builtin
from agentenvs_scenarios.household.model import TASK_TYPES, Goal, Receptacle, Scenario, Thing, check


@pytest.mark.parametrize("index", range(len(NAMES)), ids=NAMES)
def test_json_round_trip(index):
    scenario = builtin(index)
    again = Scenario.from_json(json.loads(json.dumps(scenario.to_json())))
    assert again == scenario
    assert again.digest == scenario.digest


def test_the_digest_covers_everything():
    scenario = builtin(4)
    thing = replace(scenario.things[0], states=("cool",))
    changed = [
        replace(scenario, name="other"),
        replace(scenario, text_version="0.3"),
        replace(scenario, start=0),
        replace(scenario, things=(thing, *scenario.things[1:])),
        replace(scenario, accepts=scenario.accepts[1:]),
        replace(scenario, goal=replace(scenario.goal, sentence="Wash up.")),
    ]
    assert len({item.digest for item in (scenario, *changed)}) == len(changed) + 1


def test_only_room_and_task_sentence_are_open():
    def shown(cls):
        return {item.name for item in fields(cls) if item.init and not item.metadata.get("secret")}

    assert shown(Scenario) == {"text_version", "receptacles", "goal"}
    assert shown(Receptacle) == {"name", "cls"}
    assert shown(Goal) == {"sentence"}
    assert shown(Thing) == set()


def first(items, **changes):
    return (replace(items[0], **changes), *items[1:])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda s: {"places": ()}, "it has 0 places"),
        (lambda s: {"things": s.things * 100}, "things"),
        (lambda s: {"things": first(s.things, name="Apple")}, "a name is not 'class number'"),
        (lambda s: {"things": first(s.things, name=s.things[1].name)}, "a name stands for two things"),
        (lambda s: {"text_version": "0.5"}, "text version '0.5' is unknown"),
        (lambda s: {"goal": replace(s.goal, task="dance")}, "task type 'dance' is unknown"),
        (lambda s: {"goal": replace(s.goal, sentence="a\nb")}, "the task sentence is empty, long or of several lines"),
        (lambda s: {"start": -1}, "the start is no place"),
        (lambda s: {"start": True}, "the start is no place"),
        (lambda s: {"receptacles": first(s.receptacles, place=99)}, "at no place, or has no class"),
        (lambda s: {"receptacles": first(s.receptacles, openable=False, open=True)}, "is open and cannot be"),
        (lambda s: {"things": first(s.things, within=(99,))}, "refers to something that is not there"),
        (lambda s: {"things": first(s.things, within=(1, 0))}, "refers to something that is not there"),
        (lambda s: {"things": first(s.things, flags=("edible",))}, "refers to something that is not there"),
    ],
)
def test_nonsense_is_refused(change, why):
    scenario = builtin(4)
    with pytest.raises(DataError) as caught:
        check(replace(scenario, **change(scenario)))
    assert why in caught.value.why
    assert caught.value.fix == "mend the file it came from, or leave it out"


@pytest.mark.parametrize("form", [{}, {"name": 1}, [], None, {**builtin(0).to_json(), "things": [1]}])
def test_json_of_something_else_is_refused(form):
    with pytest.raises(DataError, match="this is no household scenario"):
        Scenario.from_json(form)


@pytest.mark.parametrize("task", TASK_TYPES)
@pytest.mark.parametrize("variant", [0, 1])
def test_sentences_say_what_they_mean(task, variant):
    assert sentences.read(sentences.write(task, "mug", "shelf", variant)) == (task, "mug", "shelf")


@pytest.mark.parametrize("text", ["", "put a mug in shelf", "Put a mug in shelf.", "put a big mug in shelf."])
def test_other_sentences_mean_nothing(text):
    assert sentences.read(text) is None
