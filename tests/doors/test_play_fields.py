"""Forms made of schemas: which field an argument has, what is read back, and what is a slip."""

import json

import pytest

from agentenvs.core.observation import DataBlock, Observation, TextBlock
from agentenvs.core.spec import OptionSpec
from agentenvs_servers.doors import play_fields, play_shown


def one(part, required=True, **more):
    schema = {"type": "object", "properties": {"x": part}, "required": ["x"] if required else [], **more}
    (field,) = play_fields.of_schema(schema)
    return field


CASES = [
    ({"type": "string"}, "line", " a b ", " a b "),
    ({"type": "string"}, "line", "", ""),
    ({"type": "integer"}, "whole", " -7 ", -7),
    ({"type": "integer"}, "whole", "9" * 40, int("9" * 40)),
    ({"type": "number"}, "number", "2", 2),
    ({"type": "number"}, "number", "-2.5e1", -25.0),
    ({"type": "boolean"}, "choice", "no", False),
    ({"enum": ["a", "b"]}, "choice", "b", "b"),
    ({"enum": [1, "1", None]}, "choice", '"1"', "1"),
    ({"const": 5}, "choice", "5", 5),
    ({"type": "array", "items": {"type": "string"}}, "list", " a \n\n b,c\r\n", ["a", "b,c"]),
    ({"type": "array", "items": {"type": "integer"}}, "list", "1\n2", [1, 2]),
    ({"type": "array", "items": {"type": "object"}}, "json", '[{"a": 1}]', [{"a": 1}]),
    ({"type": "object"}, "json", '{"a": [1.5, null]}', {"a": [1.5, None]}),
    ({}, "json", '"text"', "text"),
    ({"type": ["string", "null"]}, "line", "a", "a"),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "whole", "3", 3),
    ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "json", "3", 3),
    ({"$ref": "#/$defs/Colour"}, "choice", "red", "red"),
    ({"$ref": "#/$defs/Loop"}, "json", "1", 1),
    ({"$ref": "elsewhere"}, "json", "1", 1),
]
DEFS = {"Colour": {"enum": ["red", "blue"]}, "Loop": {"$ref": "#/$defs/Loop"}}


@pytest.mark.parametrize(("part", "kind", "written", "value"), CASES)
def test_what_is_written_is_read_as_what_is_meant(part, kind, written, value):
    field = one(part, **{"$defs": DEFS})
    assert field.kind == kind
    values, sheet = play_fields.read((field,), {"a.x": written}, "a.")
    assert sheet.slips == {}
    assert json.dumps(values) == json.dumps({"x": value})
    if kind not in ("list", "whole", "number"):
        assert field.read(field.written(value)) == value


@pytest.mark.parametrize(
    ("part", "written"),
    [
        ({"type": "integer"}, "1.0"),
        ({"type": "integer"}, "٣"),
        ({"type": "integer"}, "9" * 400),
        ({"type": "number"}, "nan"),
        ({"type": "number"}, "1e999"),
        ({"type": "boolean"}, "maybe"),
        ({"enum": ["a"]}, "A"),
        ({"type": "array", "items": {"type": "integer"}}, "1\ntwo"),
        ({"type": "object"}, "{'a': 1}"),
        ({"type": "object"}, "NaN"),
        ({"type": "object"}, "[" * 100_000),
        ({"type": "integer"}, ""),
    ],
)
def test_a_slip_is_told_and_what_was_written_stays(part, written):
    values, sheet = play_fields.read((one(part),), {"a.x": written}, "a.")
    assert values == {}
    assert set(sheet.slips) == {"x"}
    assert sheet.text(sheet.fields[0]) == written


@pytest.mark.parametrize("part", [{"type": "string"}, {"type": "integer"}, {"enum": ["a"]}, {"type": "object"}, {}])
def test_what_may_be_left_out_is(part):
    values, sheet = play_fields.read((one(part, required=False),), {"a.x": ""}, "a.")
    assert (values, sheet.slips) == ({}, {})


@pytest.mark.parametrize(
    "schema",
    [
        {"additionalProperties": {"type": "string"}},
        {"properties": 5},
        {"properties": {"x": True}},
        {"properties": {"x": {}}, "required": None},
        {"properties": {"x": {"$ref": "#/$defs/X"}}, "$defs": []},
    ],
)
def test_arguments_that_are_no_list_of_fields_are_written_as_json(schema):
    assert play_fields.of_schema({"type": "object", **schema}) is None


def test_bounds_defaults_and_examples_stand_in_the_field():
    part = {"type": "integer", "minimum": 1, "maximum": 9, "default": 5, "description": "how many"}
    field = one(part)
    assert (field.least, field.most, field.start, field.said) == (1, 9, "5", "how many")
    schema = {"type": "object", "properties": {"x": {"type": "array", "items": {"type": "string"}}}}
    (field,) = play_fields.of_schema(schema, [{"x": ["a", "b"]}])
    assert field.example == "a\nb"


def test_options_of_the_machine_are_nobodys_to_choose():
    options = (
        OptionSpec("flag", "bool", False, "a flag"),
        OptionSpec("rate", "float", 0.5, "a rate"),
        OptionSpec("rows", "int", None, "rows", minimum=1),
        OptionSpec("data", "str", None, "a folder", secret=True),
    )
    fields = play_fields.of_options(options, {"flag": True, "rate": 0.5, "rows": None})
    assert [(field.name, field.kind, field.start, field.required) for field in fields] == [
        ("flag", "choice", "yes", True),
        ("rate", "number", "0.5", True),
        ("rows", "whole", "", False),
    ]


def test_data_is_shown_as_what_it_is():
    rows = [{"a": 1, "b": "x"}, {"a": None, "c": True}]
    blocks = play_shown.shown(
        Observation((TextBlock("words"), DataBlock(rows, "list"), DataBlock({"a": [1]}), DataBlock("said", "t")))
    )
    assert [block.look for block in blocks] == ["words", "table", "json", "words"]
    assert blocks[1].columns == ("a", "b", "c")
    assert blocks[1].rows == (("1", "x", ""), ("null", "", "true"))
    assert blocks[1].speaker == "list"
    many = play_shown.shown(Observation((DataBlock([{"n": n} for n in range(500)]),)))[0]
    assert (len(many.rows), many.left_out) == (play_shown.MOST_ROWS, 300)


def test_a_long_text_is_shown_in_part_in_the_list_of_turns():
    blocks, cut = play_shown.beginning(play_shown.shown(Observation((TextBlock("a"), TextBlock("b" * 10_000)))))
    assert cut
    assert [len(block.text) for block in blocks] == [1, play_shown.LONG]
    assert not play_shown.beginning(blocks[:1])[1]
    assert play_shown.short("a  b\n" * 100) == f"{('a b ' * 100)[: play_shown.SHORT].rstrip()}…"
