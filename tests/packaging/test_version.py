"""One version: the package's, the installed metadata's and the changelog's newest are the same."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

from packaging.version import Version

import agentenvs


def _released(root: Path) -> list[str]:
    return re.findall(r"^## \[(\d[^\]]*)\]", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)


def test_the_changelog_begins_with_this_version(root: Path) -> None:
    assert _released(root)[0] == agentenvs.__version__


def test_the_changelog_goes_from_new_to_old(root: Path) -> None:
    versions = [Version(text) for text in _released(root)]
    assert versions == sorted(versions, reverse=True)


def test_the_installed_version_is_this_one() -> None:
    assert version("agentenvs") == agentenvs.__version__
