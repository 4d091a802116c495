"""From episodes to micro-batches: what is computed together, and what each trained token weighs.

Segments are sorted by length and padded on the right, so that a micro-batch holds at most a budget of tokens and no
attention mask is needed: what is padded stands behind everything that counts. The weight of a token in the loss is
fixed here, from counts over the whole update, so that a loss does not depend on how the update was cut up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from agentenvs.core.errors import ConfigError
from agentenvs.train.batch import Batch
from agentenvs.train.interfaces import Aggregation

Longs = npt.NDArray[np.int64]


@dataclass(slots=True)
class MicroBatch:
    """Segments that are computed together."""

    ids: Longs
    """Shape ``(rows, width)``, padded with 0."""
    row: Longs
    """Of each trained token: its row; shape ``(n,)``."""
    column: Longs
    """Of each trained token: its position; the position before it predicts it."""
    episode: Longs
    """Of each trained token: which of the batch's episodes."""
    turn: Longs
    advantage: npt.NDArray[np.float32]
    logp_mu: npt.NDArray[np.float32]
    weight: npt.NDArray[np.float32]
    """What each token's loss is multiplied with before all are added up."""
    candidates: list[npt.NDArray[np.int32] | None] | None
    streams: dict[str, npt.NDArray[np.float32]]
    places: list[tuple[int, int]]
    """By row: episode and segment."""

    @property
    def count(self) -> int:
        """How many tokens are trained on."""
        return len(self.row)


def weights(batch: Batch, rows: Sequence[int], aggregation: Aggregation, constant: float) -> dict[int, float]:
    """Return what a token of each episode weighs.

    Args:
        batch: All episodes.
        rows: Those of this update.
        aggregation: How tokens become one number.
        constant: The length that ``constant`` divides by.
    """
    lengths = {index: batch.episodes[index].tokens for index in rows}
    count = len(lengths)
    if aggregation == "token-mean":
        each = 1.0 / max(sum(lengths.values()), 1)
        return dict.fromkeys(lengths, each)
    if aggregation == "sequence-mean":
        return {index: 1.0 / (count * max(length, 1)) for index, length in lengths.items()}
    if aggregation == "constant":
        return dict.fromkeys(lengths, 1.0 / (count * constant))
    return dict.fromkeys(lengths, 1.0 / count)


def pack(
    batch: Batch, rows: Sequence[int], budget: int, aggregation: Aggregation = "token-mean", constant: float = 1.0
) -> list[MicroBatch]:
    """Cut some episodes of a batch into micro-batches, the longest segments first.

    Args:
        batch: All episodes, with their advantages.
        rows: Which of them.
        budget: The most tokens of a micro-batch, padding included.
        aggregation: See :func:`weights`.
        constant: See :func:`weights`.

    Raises:
        ConfigError: A segment is longer than the budget.
    """
    wanted = [
        (index, place)
        for index in rows
        for place, segment in enumerate(batch.episodes[index].segments)
        if segment.loss_mask.any()
    ]
    wanted.sort(key=lambda one: (-len(batch.episodes[one[0]].segments[one[1]]), one))
    each = weights(batch, rows, aggregation, constant)
    packed: list[MicroBatch] = []
    while wanted:
        width = len(batch.episodes[wanted[0][0]].segments[wanted[0][1]])
        if width > budget:
            raise ConfigError(
                f"a segment of {width} tokens does not fit", fix=f"raise token_budget above {budget}, or cut episodes"
            )
        taken, wanted = wanted[: budget // width], wanted[budget // width :]
        packed.append(_micro(batch, taken, width, each))
    return packed


def _micro(batch: Batch, places: list[tuple[int, int]], width: int, each: dict[int, float]) -> MicroBatch:
    ids = np.zeros((len(places), width), dtype=np.int64)
    parts: dict[str, list[npt.NDArray[np.generic]]] = {}
    candidates: list[npt.NDArray[np.int32] | None] = []
    for line, (index, place) in enumerate(places):
        segment = batch.episodes[index].segments[place]
        ids[line, : len(segment)] = segment.ids
        columns = np.flatnonzero(segment.loss_mask)
        found = {
            "row": np.full(len(columns), line),
            "column": columns,
            "episode": np.full(len(columns), index),
            "turn": turns_of(batch, index, place)[columns],
            "advantage": batch.advantages[index][place][columns],
            "logp_mu": segment.logp_mu[columns],
            "weight": np.full(len(columns), each[index], dtype=np.float32),
            **{f"stream {name}": stream[columns] for name, stream in segment.streams.items()},
        }
        for name, values in found.items():
            parts.setdefault(name, []).append(values)
        candidates += [None] * len(columns) if segment.candidates is None else [segment.candidates[c] for c in columns]
    arrays = {name: np.concatenate(values) for name, values in parts.items()}
    streams = {name[7:]: values for name, values in arrays.items() if name.startswith("stream ")}
    return MicroBatch(
        ids=ids,
        row=arrays["row"].astype(np.int64),
        column=arrays["column"].astype(np.int64),
        episode=arrays["episode"].astype(np.int64),
        turn=arrays["turn"].astype(np.int64),
        advantage=arrays["advantage"].astype(np.float32),
        logp_mu=arrays["logp_mu"].astype(np.float32),
        weight=arrays["weight"].astype(np.float32),
        candidates=None if all(one is None for one in candidates) else candidates,
        streams={name: values.astype(np.float32) for name, values in streams.items()},
        places=places,
    )


def turns_of(batch: Batch, index: int, place: int) -> npt.NDArray[np.int64]:
    """Return the turn of each token of a segment; -1 where none; shape ``(n,)``."""
    found = np.full(len(batch.episodes[index].segments[place]), -1, dtype=np.int64)
    for number, turn in enumerate(batch.episodes[index].turns):
        if turn.segment == place:
            found[turn.start : turn.end] = number
    return found
