"""What is understood, and what is not: text of both releases, tool calls, junk of every kind."""

import pytest

from agentenvs.core.spec import RESERVED_TOOLS
from agentenvs.envs.household.actions import TOOLS, command_text, parse_call, parse_text, tool_call
from agentenvs.envs.household.layout import Layout
from agentenvs.envs.household.view import NOTHING
from tests.envs.household.rooms import play, room, walk, world

JUNK = [
    None,
    7,
    3.5,
    b"look",
    ["look"],
    {"text": "look"},
    object(),
    "",
    " ",
    "\n",
    "LOOK",
    "Look",
    "look.",
    "look around",
    "look\nlook",
    "go to shelf 1\nopen fridge 1",
    "go  to shelf 1",
    "go to  shelf 1",
    "go to shelf  1",
    "go to\tshelf 1",
    "go to shelf\u00a01",
    "go to the shelf 1",
    "go to shelf",
    "go to shelf 01",
    "go to shelf \u0661",
    "go to \u0455helf 1",
    "go to shelf 1\x00",
    "go to shelf 1" + " x" * 100_000,
    "shelf 1",
    "go to book 1",
    "take book 1",
    "take book 1 from",
    "take book 1 from shelf 1 from shelf 1",
    "take shelf 1 from book 1",
    "take a book 1 from shelf 1",
    "put book 1 in shelf 1",
    "put book 1 in/on shelf 1",
    "move book 1 in/on shelf 1",
    "clean cup 1",
    "slice apple 1",
    "use",
    "examine",
    "inventory 1",
    "help me",
    "\ud800",
    "x" * 10_000_000,
]


@pytest.mark.parametrize("junk", JUNK, ids=range(len(JUNK)))
def test_junk_does_nothing_and_leaves_nothing_behind(junk):
    target = world()
    before = (target.key, target.snapshot(), target.admissible())
    reply, event = target.step(junk)
    assert reply == NOTHING
    assert event[3] in ("unknown_command", "unknown_object", "unknown_receptacle")
    assert (target.key, target.snapshot(), target.admissible()) == before


@pytest.mark.parametrize("text", [" look", "look \n", "\tlook\r\n", "\u2003look"])
def test_blanks_around_a_command_are_stripped(text):
    assert world().step(text)[1][3] is None


@pytest.mark.parametrize(
    ("text", "aliases", "understood"),
    [
        ("0.3", False, "put"),
        ("0.4", False, "move"),
        ("0.3", True, "put move"),
        ("0.4", True, "put move"),
    ],
)
def test_each_release_has_its_verb_and_aliases_are_an_option(text, aliases, understood):
    commands = {"put": "put book 1 in/on shelf 1", "move": "move book 1 to shelf 1"}
    target = world(text=text, aliases=aliases)
    play(target, "go to shelf 1", "take book 1 from shelf 1")
    for verb, command in commands.items():
        reply, event = target.fork().step(command)
        assert (event[3] is None) is (verb in understood.split())
        # The reply speaks the release's own words, whichever were used.
        assert event[3] is not None or reply.startswith("You put" if text == "0.3" else "You move")
    assert sum(command in target.admissible() for command in commands.values()) == 1


@pytest.mark.parametrize("text", ["0.3", "0.4"])
def test_a_command_has_one_text_and_one_call(text):
    layout = Layout(room(), text=text)
    target = world(text=text)
    for words in walk(target, 5, 300):
        command = parse_text(layout, words)
        assert command_text(layout, command) == words
        call = tool_call(layout, command)
        assert (call is None) == (words == "help")
        assert call is None or parse_call(layout, **call) == command


def test_a_call_does_what_its_text_does():
    by_text, by_call = world(), world()
    for words in walk(by_text.fork(), 9, 200):
        command = parse_text(by_text.layout, words)
        call = tool_call(by_text.layout, command)
        expected = by_text.step(words)
        assert (by_call.call(call["tool"], call["arguments"]) if call else by_call.step(words)) == expected
    assert by_call.key == by_text.key


@pytest.mark.parametrize(
    ("tool", "arguments", "error"),
    [
        ("fly", {}, "unknown_tool"),
        (None, {}, "unknown_tool"),
        (["look"], {}, "unknown_tool"),
        ("help", {}, "unknown_tool"),
        ("go_to", {}, "bad_arguments"),
        ("go_to", None, "bad_arguments"),
        ("go_to", ["shelf 1"], "bad_arguments"),
        ("go_to", {"receptacle": 1}, "bad_arguments"),
        ("go_to", {"place": "shelf 1"}, "bad_arguments"),
        ("go_to", {"receptacle": "shelf 1", "fast": True}, "bad_arguments"),
        ("look", {"at": "shelf 1"}, "bad_arguments"),
        ("go_to", {"receptacle": "book 1"}, "unknown_receptacle"),
        ("use", {"object": "shelf 1"}, "unknown_object"),
        ("slice", {"object": "apple 1", "knife": "shelf 1"}, "unknown_object"),
        ("examine", {"target": "moon 1"}, "unknown_object"),
        ("open_receptacle", {"receptacle": "fridge 1"}, "not_here"),
    ],
)
def test_a_wrong_call_does_nothing(tool, arguments, error):
    target = world()
    key = target.key
    reply, event = target.call(tool, arguments)
    assert (reply, event[3], target.key) == (NOTHING, error, key)


def test_tool_schemas():
    assert len(TOOLS) == 13
    assert not {tool.name for tool in TOOLS} & RESERVED_TOOLS
    for tool in TOOLS:
        names = set(tool.parameters["properties"])
        assert tool.parameters["required"] == list(tool.parameters["properties"])
        assert tool.parameters["additionalProperties"] is False
        assert all(set(example) == names for example in tool.examples)
