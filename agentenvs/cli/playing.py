"""``play``: a person in a terminal, or a script on a pipe, plays an episode the way an agent would."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentenvs.cli import arguments, browsing, console, making
from agentenvs.core.errors import ConfigError

if TYPE_CHECKING:
    from agentenvs.core.playable import Playable
    from agentenvs.core.spec import EnvSpec
    from agentenvs.core.task import TaskRef
    from agentenvs.core.turn import StepResult
    from agentenvs.core.verdict import Verdict
    from agentenvs.harness.recording import Recorder

_HELP = """Type an action. A line that begins with { or [ is read as JSON: {"tool": "look", "arguments": {}}.
:admissible  list the legal text actions      :undo  take the last turn back
:help        this                             :quit  end the episode"""


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    shown = arguments.examples(
        "play household",
        "play household --index 3 -o admissible=true --record mine.jsonl",
        "play household --json < actions.txt",
        "play household --url http://127.0.0.1:8000",
        "play household --browser",
    )
    app.command("play", epilog=shown)(play)


def play(
    env: arguments.Env,
    split: arguments.Split = None,
    index: Annotated[int, typer.Option(help="Index in the split, or the seed of an endless one.")] = 0,
    option: arguments.Option = [],  # noqa: B006 - typer reads the default
    data: arguments.Data = None,
    url: arguments.Url = None,
    record: Annotated[Path | None, typer.Option(help="Write the episode record here, to a new file.")] = None,
    browser: Annotated[
        bool, typer.Option("--browser", help="Play it in this machine's browser: tools as forms, or its own pages.")
    ] = False,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Play an episode by hand; reads actions from the keyboard, or from a pipe until it ends.

    With --json the world speaks on stderr and the outcome stands on stdout.
    """
    from agentenvs.core.task import TaskRef
    from agentenvs.harness.recording import recorder

    if record is not None:
        _check_new(record)
    if browser:
        _must_be_here(url)
        raise typer.Exit(browsing.play(env, split, index, option, data, record, as_json=as_json))
    made = making.make(env, option, data, url)
    try:
        table = _Table(recorder(made), TaskRef(split or made.spec.default_split, index), err=as_json)
        verdict = table.play()
        if record is not None:
            with console.files():
                record.write_bytes(table.recorded.to_bytes())
        _tell(verdict, made, as_json)
    finally:
        made.close()
    if record is not None:
        console.message(f"Check the record: agentenvs replay {record}")
    raise typer.Exit(console.INTERRUPTED if table.interrupted else console.OK)


class _Table:
    """One person at one episode.

    Args:
        recorded: The world.
        ref: Which scenario.
        err: Whether the world speaks on stderr.
    """

    def __init__(self, recorded: Recorder, ref: TaskRef, err: bool) -> None:
        self.recorded = recorded
        self.interrupted = False
        self._ref = ref
        self._err = err
        self._person = sys.stdin.isatty()
        self._played: list[Any] = []

    def play(self) -> Verdict:
        """Play until the episode ends, the input does, or the person quits."""
        if self._person:
            with suppress(ImportError):  # not on every system; where it is, input() has a history and can be edited
                import readline  # noqa: F401
            console.message("Type an action; :help lists what else there is.\n")
        self._show(self._begin())
        while self.recorded.env.ending is None:
            line = self._read()
            if line is None or line == ":quit":
                break
            if line.startswith(":"):
                self._command(line)
            elif line.strip() or not self._person:
                self._act(_action(line, self.recorded.env.spec))
        return self.recorded.finish("abandoned")

    def _begin(self) -> str:
        observation = self.recorded.reset(self._ref)
        instruction = self.recorded.env.task().instruction
        apart = instruction and instruction not in observation.text
        return f"{observation.text}\n\n{instruction}" if apart else observation.text

    def _show(self, text: str) -> None:
        typer.echo(console.safe(text), err=self._err)
        listed = self.recorded.env.observation.admissible
        if listed is not None:
            typer.echo(console.safe(f"Legal actions: {', '.join(listed)}"), err=self._err)

    def _read(self) -> str | None:
        prompt = "> " if self._person else ""
        if self._err:
            typer.echo(prompt, nl=False, err=True)
            prompt = ""
        try:
            return input(prompt).strip("\r\n")
        except EOFError:
            return None
        except KeyboardInterrupt:
            self.interrupted = True
            return None

    def _act(self, action: Any) -> None:
        result = self.recorded.step(action)
        self._played.append(action)
        self._show(result.observation.text + (self._aside(result) if self._person else ""))

    def _aside(self, result: StepResult) -> str:
        said = [f"{name} left: {amount}" for name, amount in result.observation.budgets.items()]
        if result.reward and not (result.terminated or result.truncated):
            said.append(f"reward: {result.reward:g}")
        return "".join(f"  [{item}]" for item in said)

    def _command(self, line: str) -> None:
        if line == ":admissible":
            admissible = self.recorded.env.admissible()
            typer.echo(
                "this environment cannot list them" if admissible is None else console.safe("\n".join(admissible)),
                err=self._err,
            )
        elif line == ":undo":
            self._undo()
        else:
            unknown = "" if line == ":help" else f"There is no {console.safe(line)}.\n"
            typer.echo(unknown + _HELP, err=self._err)

    def _undo(self) -> None:
        """Play the episode again but for its last turn."""
        if not self._played:
            typer.echo("There is nothing to take back.", err=self._err)
        elif not self.recorded.env.spec.capabilities.deterministic:
            typer.echo("This world does not go the same way twice: no turn can be taken back.", err=self._err)
        else:
            *self._played, _ = self._played
            text = self._begin()
            for action in self._played:
                text = self.recorded.step(action).observation.text
            self._show(text)


def _must_be_here(url: str | None) -> None:
    if url is not None:
        raise ConfigError(
            "--browser starts a server of its own",
            why="--url names another one",
            fix="a server has its playground at /play: open that",
        )


def _action(line: str, spec: EnvSpec) -> Any:
    """Return the action a line stands for: JSON, else text, or words to the other side where no text is taken."""
    if line.lstrip().startswith(("{", "[")):
        try:
            return json.loads(line)
        except (ValueError, RecursionError):
            return line
    return {"message": line} if "text" not in spec.accepts and "message" in spec.accepts else line


def _check_new(path: Path) -> None:
    if path.exists():
        raise ConfigError(f"{path} is there already", why="a record never overwrites a file", fix="give another name")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"there is no folder {path.parent}", fix="make it, or give another --record")


def _tell(verdict: Verdict, env: Playable, as_json: bool) -> None:
    if as_json:
        console.result({"ending": env.ending, "turns": env.turn, "verdict": verdict.to_json()})
        return
    typer.echo(
        f"\n{env.ending} after {env.turn} turns; reward {verdict.reward:g}; {'won' if verdict.success else 'lost'}"
    )
    for reason in verdict.reasons:
        typer.echo(f"  {console.safe(reason)}")
