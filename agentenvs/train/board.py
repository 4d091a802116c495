"""Metrics in TensorBoard too; ``metrics.jsonl`` is what counts, and this a second view of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentenvs.core.errors import MissingExtraError


class Board:
    """Writes metrics as TensorBoard reads them.

    Args:
        folder: Of the run; they lie in ``tensorboard/`` there.
        step: The run's; what was written of this step and later ones, before a kill, is not shown.

    Raises:
        MissingExtraError: TensorBoard is not installed.
    """

    def __init__(self, folder: Path, step: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingExtraError(
                "TensorBoard is not installed", fix='pip install "agentenvs[tensorboard]", or leave tensorboard out'
            ) from error
        self._writer: Any = SummaryWriter(str(folder / "tensorboard"), purge_step=step)

    def add(self, kind: str, step: int, metrics: Mapping[str, float]) -> None:
        """Write the metrics of a step, as ``kind/name``."""
        for name, value in metrics.items():
            self._writer.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        """Write what waits. May be called twice."""
        self._writer.close()
