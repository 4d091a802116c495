"""``play``: a person in a terminal, or a script on a pipe, plays an episode the way an agent would."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentenvs.cli import arguments, console

if TYPE_CHECKING:
    from agentenvs.core.record import Recorded
    from agentenvs.core.verdict import Verdict

_HELP = """Type an action. A line that begins with { or [ is read as JSON: {"tool": "look", "arguments": {}}.
:admissible  list the legal text actions      :undo  take the last turn back
:help        this                             :quit  end the episode"""


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("play", epilog="Example: agentenvs play household --index 3 --record mine.jsonl")(play)


def play(
    env: arguments.Env,
    split: arguments.Split = None,
    index: Annotated[int, typer.Option(help="Index in the split, or the seed of an endless one.")] = 0,
    option: arguments.Option = [],  # noqa: B006 - typer reads the default
    data: arguments.Data = None,
    record: Annotated[Path | None, typer.Option(help="Write the episode record here.")] = None,
    as_json: arguments.Json = False,
) -> None:
    """Play an episode by hand; reads actions from the keyboard or from a pipe."""
    from agentenvs.core.record import Recorded
    from agentenvs.core.task import TaskRef

    made = console.make_env(env, option, data)
    ref = TaskRef(split or made.spec.default_split, index)
    table = _Table(Recorded(made), ref, say=not as_json)
    try:
        verdict = table.play()
        if record is not None:
            record.write_bytes(table.recorded.to_bytes())
        _tell(verdict, table.recorded, as_json)
    finally:
        made.close()


class _Table:
    """One person at one episode."""

    def __init__(self, recorded: Recorded, ref: Any, say: bool) -> None:
        self.recorded = recorded
        self.ref = ref
        self._say = say
        self._played: list[Any] = []

    def play(self) -> Verdict:
        """Play until the episode ends, the input does, or the person quits."""
        self.show(self.recorded.reset(self.ref).text)
        while self.recorded.env.ending is None:
            line = self._read()
            if line is None or line == ":quit":
                break
            if line.startswith(":"):
                self._command(line)
            else:
                self._act(_action(line))
        return self.recorded.finish("abandoned")

    def show(self, text: str) -> None:
        """Print what the world says."""
        if self._say:
            typer.echo(console.safe(text))

    def _read(self) -> str | None:
        try:
            return input("> " if sys.stdin.isatty() else "").strip("\r\n")
        except (EOFError, KeyboardInterrupt):
            return None

    def _act(self, action: Any) -> None:
        result = self.recorded.step(action)
        self._played.append(action)
        left = "".join(f"  [{name} left: {amount}]" for name, amount in result.observation.budgets.items())
        self.show(result.observation.text + (left if sys.stdin.isatty() else ""))

    def _command(self, line: str) -> None:
        if line == ":admissible":
            admissible = self.recorded.env.admissible()
            self.show("this environment cannot list them" if admissible is None else "\n".join(admissible))
        elif line == ":undo" and self._played:
            *self._played, _ = self._played
            text = self.recorded.reset(self.ref).text
            for action in self._played:
                text = self.recorded.step(action).observation.text
            self.show(text)
        else:
            self.show(_HELP)


def _action(line: str) -> Any:
    if line.lstrip().startswith(("{", "[")):
        try:
            return json.loads(line)
        except ValueError:
            return line
    return line


def _tell(verdict: Verdict, recorded: Recorded, as_json: bool) -> None:
    env = recorded.env
    if as_json:
        console.result({"ending": env.ending, "turns": env.turn, "verdict": verdict.to_json()})
        return
    typer.echo(
        f"\n{env.ending} after {env.turn} turns; reward {verdict.reward:g}; {'won' if verdict.success else 'lost'}"
    )
    for reason in verdict.reasons:
        typer.echo(f"  {console.safe(reason)}")
