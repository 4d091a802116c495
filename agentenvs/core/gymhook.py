"""Makes the environments known to Gymnasium without importing it.

``import agentenvs`` must be enough for ``gymnasium.make("agentenvs/Household-v0")``, but Gymnasium and NumPy take a
quarter of a second to import, which a command line or a server that needs neither should not pay. So: if Gymnasium is
loaded, register now; if not, watch for its import once and register right after.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType

_MODULE = "gymnasium"


def install() -> None:
    """Register with Gymnasium now or when it is imported; doing so twice is harmless."""
    if _MODULE in sys.modules:
        _register(sys.modules[_MODULE])
    elif not any(isinstance(finder, _Watcher) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Watcher())


def _register(gymnasium: ModuleType) -> None:
    from agentenvs.core.registry import built_in_ids

    for env_id in built_in_ids():
        if env_id not in gymnasium.registry:
            gymnasium.register(env_id, entry_point="agentenvs.core.gym:make_gym", kwargs={"env_id": env_id})


class _Watcher(importlib.abc.MetaPathFinder):
    """Waits for the first import of Gymnasium, lets the other finders find it, and has it registered once it is there.

    It stays until the module was executed: whoever only asks whether Gymnasium is installed finds it, too.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _MODULE:
            return None
        others = [finder for finder in sys.meta_path if not isinstance(finder, _Watcher)]
        found = next(filter(None, (finder.find_spec(fullname, path, target) for finder in others)), None)
        if found is None or found.loader is None:
            return None
        found.loader = _Loader(found.loader)
        return found


class _Loader(importlib.abc.Loader):
    """The module's own loader, and the registration after it."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Watcher)]
        _register(module)
