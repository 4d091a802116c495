"""``train``: trains a model in environments by a configuration file, or goes on with a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from agentenvs.cli import arguments, console, crediting
from agentenvs.core.errors import ConfigError, MissingExtraError

_TRAIN = "CONFIG"
_HELP = "Train a model in environments; `train credit-audit` holds methods against true advantages."
_TOLD = ("success", "eval_success", "valid", "return", "loss", "gap", "tokens_trained")


class _Train(TyperGroup):
    """``train CONFIG`` trains; only what names another verb is that verb."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the name of the verb that is not written before its words."""
        if not args or args[0] not in self.commands or args[0] == _TRAIN:
            args = [_TRAIN, *args]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Let the verb that is not written not be shown either."""
        name, command, rest = super().resolve_command(ctx, args)
        return ("" if name == _TRAIN else name), command, rest


class _Plain(TyperCommand):
    """The verb that is not written."""

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """Show how it is used, without a gap where its name would stand."""
        formatter.write_usage(ctx.command_path.strip(), " ".join(self.collect_usage_pieces(ctx)))


def add_to(app: typer.Typer) -> None:
    """Add the verbs."""
    shown = arguments.examples(
        "train household.toml --out runs/first",
        "train household.toml --out runs/second --set method=gigpo --set learner.lr=3e-4",
        "train --resume runs/first",
        "train --methods",
        "train credit-audit runs/first --out audits/first",
    )
    verbs = typer.Typer(cls=_Train)
    own = {"auto_envvar_prefix": "AGENTENVS_TRAIN"}
    verbs.command(_TRAIN, cls=_Plain, epilog=shown, context_settings=own)(train)
    crediting.add_to(verbs)
    app.add_typer(verbs, name="train", help=_HELP)


def train(
    config: Annotated[Path | None, typer.Argument(help="A TOML file.", metavar="CONFIG")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; runs/NAME otherwise.")] = None,
    change: Annotated[
        list[str], typer.Option("--set", metavar="TABLE.NAME=VALUE", help="Change a setting; may be repeated.")
    ] = [],  # noqa: B006 - typer reads the default
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Go on with a run, by its own configuration.")
    ] = None,
    methods: Annotated[bool, typer.Option("--methods", help="List the methods, and where they come from.")] = False,
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Train a model in environments: metrics line by line, checkpoints, curves, and a report."""
    _must_be_installed()
    if methods:
        _list(as_json)
        return
    if (config is None) == (resume is None):
        raise ConfigError("train takes a configuration, or --resume and the folder of a run", fix="agentenvs train -h")
    if resume is not None and (change or out is not None):
        raise ConfigError("a run goes on by its own configuration", fix="leave out --set and --out")
    from agentenvs.train import picture, run
    from agentenvs.train.config import read
    from agentenvs.train.engine.ranks import talks

    with console.files():
        if resume is not None:
            folder = resume
            model = run.resume(folder, tell=_teller())
        elif config is not None:
            made = read(config, change)
            folder = out or Path("runs") / made.name
            model = run.train(made, folder, tell=_teller())
        if not talks():
            return
        page = picture.report(folder)
    ended = run.end_of(folder)
    if ended is not None:
        console.message(f"ended: {ended['why']}")
    _tell(folder, model, page, as_json)


def _must_be_installed() -> None:
    try:
        import torch  # noqa: F401 - is it there?
        import transformers  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            "training needs PyTorch and transformers", fix='pip install "agentenvs[train]"'
        ) from error


def _teller() -> Callable[[str, Mapping[str, float]], None]:
    def tell(kind: str, metrics: Mapping[str, float]) -> None:
        told = "  ".join(f"{name} {metrics[name]:.4g}" for name in _TOLD if name in metrics)
        console.message(f"{kind} {metrics['step']:.0f}  {told}")

    return tell


def _tell(folder: Path, model: Path, page: Path, as_json: bool) -> None:
    from agentenvs.train import picture

    evaluated = [line for line in picture.read(folder) if line["kind"] == "eval"]
    if as_json:
        console.result({"run": str(folder), "model": str(model), "report": str(page), "evaluations": evaluated})
        return
    console.out().print(_table(evaluated))
    console.message(f"model {model}, report {page}")


def _table(evaluated: list[dict[str, float]]) -> object:
    from rich.table import Table

    table = Table(title="held-out success, each scenario once")
    for head in ("step", "success", "95 % interval", "episodes"):
        table.add_column(head, justify="right")
    for line in evaluated:
        table.add_row(
            f"{line['step']:.0f}",
            f"{line['eval_success']:.3f}",
            f"{line['eval_low']:.3f} to {line['eval_high']:.3f}",
            f"{line['eval_episodes']:.0f}",
        )
    return table


def _list(as_json: bool) -> None:
    from rich.table import Table

    from agentenvs.train.methods import recipes

    known = list(recipes().values())
    if as_json:
        console.result([{"name": one.name, "provenance": one.provenance, "source": one.source} for one in known])
        return
    table = Table("method", "provenance", "source")
    for one in known:
        table.add_row(one.name, one.provenance, one.source)
    console.out().print(table)
