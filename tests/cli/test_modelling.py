"""The options of a model: those that go with a player are taken, the others are told."""

from __future__ import annotations

import json

import pytest

MODEL = ("--model", "m", "--base-url", "http://127.0.0.1:1/v1")


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (("exec:true", "--episode-tokens", "9"), "--episode-tokens has no effect"),
        (("exec:true", *MODEL, "--protocol", "react"), "--protocol has no effect"),
        (("exec:true", *MODEL, "--episode-tokens", "some"), "is a number"),
        (("exec:true", *MODEL, "--model-apis", "chat,smoke"), "no API is called 'smoke'"),
        (("openai", *MODEL, "--episode-dollars", "1"), "--episode-dollars has no effect"),
        (("expert", "--address", "auto"), "an address has no effect"),
    ],
)
def test_what_makes_no_sense_is_told_before_anything_is_played(cli, tmp_path, given, word):
    ran = cli("eval", "household", "--episodes", "1", "--out", "run", "--policy", *given)
    assert ran.code == 2
    assert word in ran.err
    assert not (tmp_path / "run").exists()


def test_a_program_with_a_model_needs_no_server(cli, tmp_path):
    asks = 'python -c \'import os; print(os.environ["AGENTENVS_MODEL"], os.environ["OPENAI_API_KEY"][:13])\''
    ran = cli("eval", "household", "--episodes", "1", "--out", "run", "--policy", f"exec:{asks}", *MODEL)
    assert ran.code == 0
    said = json.loads((tmp_path / "run" / "sidecars" / "000000.json").read_text())["policy"]
    assert said["output"] == "m sk-agentenvs-\n"
    assert said["model"]["model_calls"] == 0
