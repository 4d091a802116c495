"""Yardsticks of a board: what its environment's own players reach, so that readers see floor and ceiling.

They are played here on the board's scenarios and go the way of every submission, with two allowances: an oracle is
shown the scenarios, and a player that draws among the admissible commands is shown those. Where they cannot be played
here, the score card says what they reached, and the row says that nothing of it was played again.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentenvs.core import registry
from agentenvs.core.canon import JSON
from agentenvs.core.errors import DataError
from agentenvs.core.policy import Privileged
from agentenvs.harness.planning import RunConfig
from agentenvs.harness.policies import resolve, wanted_options
from agentenvs.harness.run import evaluate
from agentenvs.leaderboard import bundle as bundles
from agentenvs.leaderboard import clean
from agentenvs.leaderboard.boards import Board, machine_options, options_of
from agentenvs.leaderboard.bundle import Submission
from agentenvs.leaderboard.counting import Counted
from agentenvs.leaderboard.store import Entry, Store, anchor_entry
from agentenvs.leaderboard.verifying import Terms
from agentenvs_scoring import cards
from agentenvs_scoring.cards import Band

Told = Callable[[str, int, int], None]
"""Called with a player's name, episodes done, and episodes in all."""


def measure(store: Store, board_id: str, players: Sequence[str] | None = None, told: Told | None = None) -> list[str]:
    """Play the environment's own players on a board's scenarios and enter them; return their names.

    Args:
        store: Where the board is.
        board_id: Of the board.
        players: Their names; all where None.
        told: Of progress.

    Raises:
        UserError: Some subclass: a player cannot be made or played, or the board is not of what is installed here.
    """
    board = store.board(board_id)
    names = list(registry.spec(board.env).players) if players is None else list(players)
    for name in names:
        _measure(store, board_id, board, name, told)
    store.rank(board_id)
    return names


def _measure(store: Store, board_id: str, board: Board, name: str, told: Told | None) -> None:
    spec = registry.spec(board.env)
    policy = resolve(name, spec)()
    machine = machine_options(board, store.machine)
    wants = wanted_options(policy, spec)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        config = RunConfig(
            env=board.env,
            policy=name,
            split=board.split,
            start=board.start,
            episodes=board.scenarios,
            trials=board.trials,
            options={**wants, **_given(board), **wants, **machine},
            out=folder,
        )
        evaluate(config, None if told is None else lambda done, total, _: told(name, done, total))
        data = bundles.pack_folder(folder, Submission(contestant=f"the board: {name}", agent=name))
        path = store.keep("bundles", data)
        found = clean.verified(path, board, Terms(anchor=True, machine=machine), store.bounds)
    entry = anchor_entry(name, found, board, knows=isinstance(policy, Privileged), wants=_others(board, wants))
    store.insert(board_id, board, entry)


def _given(board: Board) -> dict[str, JSON]:
    """Return the board's options that differ from the environment's own."""
    spec = registry.spec(board.env)
    defaults = {option.name: option.default for option in spec.options}
    return {name: value for name, value in options_of(board).items() if value != defaults.get(name)}


def _others(board: Board, wants: Mapping[str, Any]) -> dict[str, JSON]:
    options = options_of(board)
    return {name: value for name, value in wants.items() if options.get(name) != value}


def from_card(store: Store, board_id: str) -> list[str]:
    """Enter what the score card says of the environment's own players; return their names.

    Only what was measured on the board's very scenarios and options.
    """
    board = store.board(board_id)
    found = []
    for band in _bands(board):
        store.insert(board_id, board, _card_entry(band, board))
        found.append(band.player)
    store.rank(board_id)
    return found


def _bands(board: Board) -> Iterator[Band]:
    try:
        card = cards.load(registry.spec(board.env).slug)
    except DataError:
        return
    if (card.env, card.release) != (board.env, board.release) or board.trials != 1:
        return
    budget = json.loads(board.budgets).get("steps")
    taken: set[str] = set()
    for band in card.bands:
        fits = (band.split, band.episodes, band.panel, band.limit) == (
            board.split,
            board.scenarios,
            board.panel,
            budget,
        )
        if fits and band.player not in taken:
            taken.add(band.player)
            yield band


def _card_entry(band: Band, board: Board) -> Entry:
    columns = {
        "episodes": band.episodes,
        "successes": band.won,
        "rate": band.success,
        "low": band.success_band[0],
        "high": band.success_band[1],
        "reward": band.reward,
        "turns": band.steps,
        "failed": 0,
    }
    detail: dict[str, JSON] = {
        "interval": "Wilson",
        "told": {"card": True},
        "wants": dict(band.options),
        "families": [],
    }
    empty = b"\0" * board.scenarios
    counted = Counted(columns, detail, empty, b"", b"", b"")
    named = Submission(contestant=f"the score card: {band.player}", agent=band.player)
    return Entry(f"card-{band.player}", "card", "self-reported", named, counted, None, band.player)
