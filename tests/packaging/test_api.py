"""What authors import is what the page lists, and what it lists is there."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path

from agentenvs import api
from agentenvs.adapters import wrapping
from agentenvs.core.canon import digest

NAMES = "2d12f0c1aff2b37b67437ad53366f501c5e4b24213772c1b0ab4037a184ab015"
DIGEST = {
    "1.0": NAMES,
    "1.1": NAMES,
    "1.2": "8f0e05722cfa2d0cce3f48fbb4c1a06c7d1d2f8994a7a2b0f70a9caddc6bc584",
}
"""Of the names of each version: one that goes raises its first number, one that comes (or an argument) its second."""

WRAPPED = {
    "foreign": ("Foreign", "Refused", "describe"),
    "gymnasium": ("GymnasiumEngine",),
    "objects": ("ObjectEngine",),
    "openenv": ("OpenEnvEngine",),
    "mcp": ("McpEngine",),
}
"""What files import that ``wrap`` has written."""


def _listed(root: Path) -> set[str]:
    page = (root / "docs" / "own-world.md").read_text(encoding="utf-8")
    table = page.partition("## What you may import")[2].partition("\n## ")[0]
    return set(re.findall(r"`(\w+)`", "\n".join(line for line in table.splitlines() if line.startswith("|"))))


def test_the_page_lists_what_is_exported(root):
    assert _listed(root) == set(api.__all__)


def test_all_of_it_is_there_and_sorted_by_kind():
    assert all(hasattr(api, name) for name in api.__all__)
    assert len(set(api.__all__)) == len(api.__all__)


def test_nothing_goes_without_a_new_version():
    assert digest(sorted(api.__all__)) == DIGEST[api.API_VERSION]


def test_what_wrapped_files_import_is_there_and_on_the_page(root):
    page = (root / "docs" / "own-world.md").read_text(encoding="utf-8")
    for module, names in WRAPPED.items():
        found = importlib.import_module(f"agentenvs.adapters.{module}")
        for name in names:
            assert hasattr(found, name)
            assert f"`{name}`" in page.partition("## What you may import")[2]
    said = set(re.findall(r"from agentenvs\.adapters\.(\w+) import", inspect.getsource(wrapping)))
    assert {"foreign", "gymnasium", "objects", "openenv", "mcp"} <= said


def test_the_templates_import_nothing_else(root):
    for file in (root / "agentenvs" / "cli" / "templates").rglob("*.py.in"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("agentenvs"):
                assert node.module == "agentenvs.api", file
