"""States on disk: what a checkpoint holds, written and read with errors that say what can be done."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import torch

from agentenvs.core.errors import ConfigError, DataError

BEFORE = "remove that checkpoint: the run goes on from the one before, or from its beginning"
DAMAGED = (RuntimeError, KeyError, ValueError, EOFError, IndexError, TypeError, pickle.UnpicklingError)
"""What a file that was cut, overwritten, or of another model leads to."""


def write(state: Any, path: Path) -> None:
    """Write a state.

    Raises:
        DataError: The disk does not take it.
    """
    try:
        torch.save(state, path)
    except (OSError, RuntimeError) as error:
        raise DataError(f"{path} cannot be written", why=_line(error), fix="make room, then resume the run") from error


def read(path: Path, device: Any = "cpu") -> Any:
    """Return a state.

    Raises:
        ConfigError: It is not there, or damaged.
    """
    try:
        return torch.load(path, map_location=device, weights_only=True)
    except FileNotFoundError as error:
        raise ConfigError(f"{path} is not there", fix=BEFORE) from error
    except DAMAGED as error:
        raise damaged(path, error) from error


def damaged(path: Path, error: Exception) -> ConfigError:
    """Return the error of a state that cannot be used."""
    return ConfigError(f"{path} is damaged, or of another model", why=_line(error), fix=BEFORE)


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
