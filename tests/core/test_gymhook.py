"""The watch for Gymnasium's first import: it ends with it, leaves no mark, and survives mere questions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_MARKS = (
    "import sys\nfrom agentenvs.core import gymhook\n"
    "def watchers(): return sum(type(finder).__name__ == '_Watcher' for finder in sys.meta_path)\n"
)


def _python(root: Path, code: str, more: Path | None = None) -> list[str]:
    rooms = [root, *(root / room for room in ("servers", "scenarios", "scoring"))]
    paths = os.pathsep.join(map(str, [*([more] if more else []), *rooms]))
    done = subprocess.run(
        [sys.executable, "-c", _MARKS + code],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    """A folder with a small module of Gymnasium's name: quick to import, and it may be told to fail."""
    (tmp_path / "gymnasium.py").write_text(
        "import os\nif os.environ.pop('BROKEN', None): raise ImportError('broken')\n"
        "registry = {}\ndef register(env_id, **kwargs): registry[env_id] = kwargs\n"
    )
    return tmp_path


def test_the_watch_ends_with_the_import_and_leaves_no_mark(root: Path) -> None:
    code = (
        "gymhook.install(); gymhook.install(); print(watchers())\n"
        "import gymnasium; print(watchers())\n"
        "for loader in (gymnasium.__spec__.loader, gymnasium.__loader__): print(type(loader).__name__)"
    )
    assert _python(root, code) == ["1", "0", "SourceFileLoader", "SourceFileLoader"]


def test_what_is_registered(root: Path, fake: Path) -> None:
    code = (
        "import gymnasium\n"
        "for name, how in gymnasium.registry.items(): print(name, how['entry_point'], how['kwargs']['env_id'])"
    )
    assert _python(root, code, fake)[:3] == [
        "agentenvs/Household-v0",
        "agentenvs.core.gym:make_gym",
        "agentenvs/Household-v0",
    ]


def test_who_only_asks_for_gymnasium_does_not_end_the_watch(root: Path, fake: Path) -> None:
    code = (
        "import importlib.util\n"
        "print(importlib.util.find_spec('gymnasium').name, watchers())\n"
        "import gymnasium; print('agentenvs/Household-v0' in gymnasium.registry, watchers())"
    )
    assert _python(root, code, fake) == ["gymnasium", "1", "True", "0"]


def test_an_import_that_fails_once_may_be_tried_again(root: Path, fake: Path) -> None:
    code = (
        "import os; os.environ['BROKEN'] = '1'\n"
        "try:\n    import gymnasium\nexcept ImportError as error:\n    print(error)\n"
        "import gymnasium; print('agentenvs/Household-v0' in gymnasium.registry)"
    )
    assert _python(root, code, fake) == ["broken", "True"]


def test_an_id_that_is_registered_already_is_left_alone(root: Path, fake: Path) -> None:
    code = (
        "sys.meta_path[:] = [f for f in sys.meta_path if type(f).__name__ != '_Watcher']\n"
        "import gymnasium; gymnasium.registry['agentenvs/Household-v0'] = 'mine'\n"
        "gymhook.install(); print(gymnasium.registry['agentenvs/Household-v0'])"
    )
    assert _python(root, code, fake) == ["mine"]
