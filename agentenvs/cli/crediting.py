"""``train credit-audit``: what methods say turns were worth, against what continuations show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentenvs.cli import arguments, console
from agentenvs.core.errors import MissingExtraError

if TYPE_CHECKING:
    from agentenvs.train.credit_audit.audit import Result


def add_to(verbs: typer.Typer) -> None:
    """Add the verb."""
    shown = arguments.examples(
        "train credit-audit runs/first --out audits/first",
        "train credit-audit household.toml --model runs/first/model --episodes 128 --branches 32 --out audits/more",
        "train credit-audit runs/first --methods grpo,gigpo,wpm --budget cpu=600 --out audits/three",
    )
    verbs.command("credit-audit", epilog=shown)(credit_audit)


def credit_audit(
    target: Annotated[Path, typer.Argument(help="Folder of a run, or a TOML file.", metavar="RUN_OR_CONFIG")],
    out: Annotated[Path, typer.Option(help="Folder of the audit; the same command goes on with it.")],
    model: Annotated[Path | None, typer.Option(help="Folder of the model; the run's own otherwise.")] = None,
    episodes: Annotated[int, typer.Option(help="Episodes that are audited.", min=1)] = 64,
    group_size: Annotated[int, typer.Option(help="Episodes of each scenario.", min=1)] = 8,
    branches: Annotated[int, typer.Option(help="Continuations of each turn; an even number.", min=2)] = 16,
    methods: Annotated[str, typer.Option(help="Methods by name, with commas; all otherwise.")] = "",
    budget: Annotated[
        list[str],
        typer.Option(help="The most NUMBER of continuations, or tokens=NUMBER, cpu=SECONDS; may be repeated."),
    ] = [],  # noqa: B006 - typer reads the default
    warmup: Annotated[int, typer.Option(help="Rounds from which critics and trackers learn before.", min=0)] = 2,
    passes: Annotated[int, typer.Option(help="How often critics go over each of these rounds.", min=1)] = 4,
    top: Annotated[float, typer.Option(help="Share of turns the overlap looks at.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Of the intervals.", min=0)] = 0,
    change: Annotated[
        list[str], typer.Option("--set", metavar="TABLE.NAME=VALUE", help="Change a setting of the TOML file.")
    ] = [],  # noqa: B006 - typer reads the default
    as_json: arguments.Json = False,
    quiet: arguments.Quiet = False,
    no_color: arguments.NoColor = False,
) -> None:
    """Play on from every turn of some episodes, and hold what methods say of the turns against what comes out."""
    _must_be_installed()
    from agentenvs.train.credit_audit import audit, opening, pages
    from agentenvs.train.credit_audit.settings import AuditSettings
    from agentenvs.train.credit_audit.settings import budget as read_budget

    names = tuple(name.strip() for name in methods.split(",") if name.strip())
    settings = AuditSettings(
        episodes=episodes,
        group_size=group_size,
        branches=branches,
        methods=names,
        budget=read_budget(budget),
        warmup=warmup,
        passes=passes,
        top=top,
        seed=seed,
    )
    with console.files():
        config = opening.configured(target, model, tuple(change))
        start = opening.start_of(target) if model is None else None
        result = audit.audit(config, settings, out, start=start, tell=console.message)
    if as_json:
        console.result(pages.to_json(result))
        return
    _print(result)
    console.message(f"pages {out / 'report.html'}, {out / 'credit.md'}, {out / 'credit.svg'}")


def _print(result: Result) -> None:
    from rich.table import Table

    from agentenvs.train.credit_audit import pages

    head, *lines = pages.rows(result, brief=True)
    table = Table(title="methods against true advantages, 95 % intervals")
    for place, one in enumerate(head):
        table.add_column(one, justify="left" if place == 0 else "right")
    for line in lines:
        table.add_row(*line)
    console.out().print(table)
    for said in pages.sentences(result):
        console.out().print(said)
    for name, why in pages.missing(result):
        console.out().print(f"not compared: {name}: {why}")


def _must_be_installed() -> None:
    try:
        import torch  # noqa: F401 - is it there?
        import transformers  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            "the audit needs PyTorch and transformers", fix='pip install "agentenvs[train]"'
        ) from error
