"""The hard caps on the length of modules and functions, and documentation of public names."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import shape


def test_no_cap_is_broken(root: Path) -> None:
    assert shape.measure(root).broken() == []


def test_public_names_are_documented(root: Path) -> None:
    assert list(shape.measure(root).undocumented) == []


def test_exempt_tables_exist_and_hold_no_code(root: Path) -> None:
    modules = {module.path: module for module in shape.measure(root).modules}
    for path in sorted(shape.DATA_TABLES):
        assert path in modules, f"{path} is exempt and absent"
        assert not list(shape._functions(modules[path])), f"{path} is exempt as a table and has functions"


@pytest.mark.parametrize(
    ("lines", "found"),
    [(shape.FUNCTION_CAP, []), (shape.FUNCTION_CAP + 1, ["agentenvs/long.py:2: f has 81 lines, the cap is 80"])],
)
def test_a_long_function_is_found(tmp_path: Path, lines: int, found: list[str]) -> None:
    (tmp_path / "agentenvs").mkdir()
    body = "\n".join(["    pass"] * (lines - 1))
    (tmp_path / "agentenvs" / "long.py").write_text(f'"""Long."""\ndef f():\n{body}\n')
    assert shape.measure(tmp_path).broken() == found


def test_a_long_module_is_found(tmp_path: Path) -> None:
    (tmp_path / "agentenvs").mkdir()
    (tmp_path / "agentenvs" / "long.py").write_text("x = 1\n" * (shape.MODULE_CAP + 1))
    assert shape.measure(tmp_path).broken() == ["agentenvs/long.py: 601 lines, the cap is 600"]


def test_an_undocumented_name_is_found(tmp_path: Path) -> None:
    (tmp_path / "agentenvs").mkdir()
    (tmp_path / "agentenvs" / "bare.py").write_text('"""Bare."""\nclass A:\n    """A."""\n    def b(self): ...\n')
    assert shape.measure(tmp_path).undocumented == ("agentenvs/bare.py:4 b",)


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [([], 0.5, 0), ([3], 0.95, 3), ([1, 2, 3, 4], 0.5, 2), (list(range(100)), 0.95, 94)],
)
def test_percentile(values: list[int], share: float, expected: int) -> None:
    assert shape.percentile(values, share) == expected
