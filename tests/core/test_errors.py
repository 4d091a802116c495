"""The tree of errors: codes, words, and the way through a pipe."""

from __future__ import annotations

import pickle
import re

import pytest

from agentenvs.core import errors
from agentenvs.core.errors import AgentEnvsError, EpisodeError, OptionError, UserError, missing_extra


def _tree(cls: type[AgentEnvsError]) -> list[type[AgentEnvsError]]:
    return [cls, *(found for child in cls.__subclasses__() for found in _tree(child))]


_OWN = [cls for cls in _tree(AgentEnvsError) if cls.__module__ == errors.__name__]
_LEAVES = [cls for cls in _OWN if cls not in (AgentEnvsError, UserError, EpisodeError)]


def test_every_code_is_unique() -> None:
    assert len({cls.code for cls in _OWN}) == len(_OWN)


def test_the_drawn_tree_is_the_tree() -> None:
    drawn = dict(re.findall(r"─ (\w+) +(AE\d{3}) ", errors.__doc__ or ""))
    assert drawn == {cls.__name__: cls.code for cls in _LEAVES}


@pytest.mark.parametrize("cls", [UserError, EpisodeError])
def test_a_branch_is_drawn_over_its_leaves(cls: type[AgentEnvsError]) -> None:
    _, _, below = (errors.__doc__ or "").partition(f"── {cls.__name__} ")
    drawn = re.findall(r"\n    [│ ]   [├└]── (\w+)", below.partition("\n    ├── ")[0].partition("\n    └── ")[0])
    assert drawn == [child.__name__ for child in cls.__subclasses__() if child in _OWN]


@pytest.mark.parametrize(
    ("why", "fix", "text"),
    [
        ("", "", "AE103 no"),
        ("because", "", "AE103 no\n  why: because"),
        ("", "do", "AE103 no\n  fix: do"),
        ("because", "do", "AE103 no\n  why: because\n  fix: do"),
    ],
)
def test_words(why: str, fix: str, text: str) -> None:
    assert str(OptionError("no", why=why, fix=fix)) == text


@pytest.mark.parametrize("cls", _OWN, ids=lambda cls: cls.__name__)
def test_pickled_and_back(cls: type[AgentEnvsError]) -> None:
    error = pickle.loads(pickle.dumps(cls("what", why="why", fix="fix")))
    assert type(error) is cls
    assert error.to_json() == {"code": cls.code, "what": "what", "why": "why", "fix": "fix"}


def test_a_missing_package_names_its_extra() -> None:
    assert str(missing_extra("the viewer", "plotly", "view")) == (
        "AE104 the viewer needs the package 'plotly', which is not installed\n"
        "  why: it is heavy, so it is not part of the base install\n"
        "  fix: pip install 'agentenvs[view]'"
    )
