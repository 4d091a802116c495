"""Names at the press of a key, as a shell asks for them."""

from __future__ import annotations

import pytest


@pytest.fixture
def completed(cli, monkeypatch):
    """Return what bash is offered after these words."""

    def ask(*words: str) -> list[str]:
        monkeypatch.setenv("_AGENTENVS_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(["agentenvs", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        ran = cli()
        assert ran.err == ""
        return ran.out.split()

    return ask


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("re",), ["report", "replay", "rescore"]),
        (("info", "hou"), ["household"]),
        (("eval", "household", "--policy", "o"), ["oracle", "openai"]),
        (("eval", "household", "--split", "b"), ["builtin"]),
        (("eval", "household", "--protocol", "agent"), ["agentbench", "agentgym"]),
        (("eval", "webshop", "--protocol", "agent"), ["agentbench-webshop", "agentgym-webshop"]),
        (("info", "household", "-o", "a"), ["admissible=", "aliases="]),
        (("play", "nowhere", "--split", ""), []),
        (("eval", "--policy", ""), []),
    ],
)
def test_names(completed, words, offered):
    assert completed(*words) == offered


def test_splits_of_a_data_folder(completed, shared_data):
    data = str(shared_data / "household")
    assert completed("play", "household", "--data", data, "--split", "valid_s") == ["valid_seen"]


def test_a_script_for_the_shell(cli):
    assert "_AGENTENVS_COMPLETE" in cli("--show-completion", "bash").out
