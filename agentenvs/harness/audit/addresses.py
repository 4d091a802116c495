"""Whether the address of a task, which every player is told, says what solves it or how hard it is.

Two forms of it are looked for, in consecutive tasks of one split: solutions that come back with a period, and lengths
of solutions that grow with the index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentenvs.core.canon import canonical
from agentenvs.core.errors import AgentEnvsError
from agentenvs.core.task import TaskRef
from agentenvs.harness.audit.rows import Row, opened, skipped
from agentenvs.harness.audit.theatre import Theatre

ROW = "hack.foretold"
_SAYS = "reads off the address of a task what solves it, or how hard it is"
_TASKS = 16
_STRONG = 0.95
"""Rank correlation that no chance explains: of 16 tasks, less than one in 10^6."""


def rows(theatre: Theatre) -> Iterator[Row]:
    """Yield the row."""
    split = theatre.subject.splits()[theatre.subject.main_split]
    number = _TASKS if split.size is None else min(split.size, _TASKS)
    solutions: list[tuple[str, ...]] = []
    for index in range(number):
        try:
            solution = theatre.solution(TaskRef(split.name, index))
        except AgentEnvsError:
            solution = ()
        if solution:
            solutions.append(tuple(canonical(action) for action in solution))
    if len(solutions) < number or number < _TASKS // 2:
        yield skipped(ROW, _SAYS, f"{len(solutions)} tasks in a row have a known solution, {_TASKS // 2} are needed")
        return
    said = _periodic(solutions) or _growing([len(solution) for solution in solutions])
    plain = f"{number} tasks from {split.name}/0 on: no period, and no order of lengths"
    row = Row(ROW, _SAYS, "breach" if said else "held", said or plain, 0.0, float(bool(said)), episodes=number)
    yield opened(row, theatre.said.open[ROW]) if ROW in theatre.said.open else row


def count(theatre: Theatre) -> int:
    """Return the number of rows."""
    return 1


def _periodic(solutions: Sequence[tuple[str, ...]]) -> str:
    """Return in words the period with which solutions come back; empty where they do not."""
    if len(set(solutions)) < 2:
        return ""
    for period in range(1, len(solutions) // 2 + 1):
        if all(solutions[at] == solutions[at + period] for at in range(len(solutions) - period)):
            return f"solutions come back every {period} tasks"
    return ""


def _growing(lengths: Sequence[int]) -> str:
    """Return in words that lengths follow the index, by Spearman's rank correlation; empty where they do not."""
    if len(set(lengths)) < 4:
        return ""
    ranks = [sum(other < value for other in lengths) + (lengths.count(value) - 1) / 2 for value in lengths]
    middle = (len(lengths) - 1) / 2
    shared = sum((rank - middle) * (at - middle) for at, rank in enumerate(ranks))
    spread = sum((rank - middle) ** 2 for rank in ranks) * sum((at - middle) ** 2 for at in range(len(ranks)))
    strong = shared * shared >= _STRONG * _STRONG * spread
    return f"solutions are {'longer' if shared > 0 else 'shorter'} the higher the index" if strong else ""
