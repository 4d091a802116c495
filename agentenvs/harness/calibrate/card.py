"""A card on disk: read, held against what was measured, and written again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentenvs.core import registry
from agentenvs.core.errors import ConfigError, ContractError, DataError
from agentenvs.core.policy import Privileged
from agentenvs.core.spec import EnvSpec, SplitSpec
from agentenvs.harness.calibrate.measuring import Measured
from agentenvs.harness.calibrate.moved import moved
from agentenvs.harness.calibrate.results import band, model_row, saturated, usual_limit
from agentenvs.harness.calibrate.writing import card_path, new_head, written
from agentenvs.harness.policies import resolve, wanted_options
from agentenvs.harness.report import Run
from agentenvs_scoring.cards import Band, Card, ModelRow, Saturated, parse


@dataclass(frozen=True, slots=True)
class Kept:
    """An environment's card, where it is, and what it says so far."""

    spec: EnvSpec
    splits: dict[str, SplitSpec]
    path: Path
    text: str
    card: Card | None
    """None where there is no card yet."""

    def updated(self, found: Sequence[Measured], runs: Sequence[Run], *, whole: bool) -> Card:
        """Return the card with what was measured.

        Args:
            found: Rows of anchors.
            runs: Runs of models.
            whole: Whether all was measured that can be here: what is measured no longer is left out then, apart from
                splits of data that is not at hand.
        """
        now = [band(one, self.spec, self.splits.get(one.row.split)) for one in found]
        measured = {one.place: one for one in now}
        before = self.card.bands if self.card is not None else ()
        bands = [measured.pop(one.place, one) for one in before if self._stays(one, measured, whole)]
        bands += measured.values()
        models = {(row.name, row.protocol, row.split, row.panel, row.limit): row for row in self._models(runs)}
        release = self.spec.release
        old = self.card or Card(self.spec.id, release, {}, {})
        full = saturated([*_seen(self.spec, bands), *((row, ()) for row in models.values())], usual_limit(self.spec))
        return Card(self.spec.id, release, old.passing, old.oracle, tuple(bands), tuple(models.values()), tuple(full))

    def _stays(self, one: Band, measured: dict[tuple[str, str, int | None, int, str], Band], whole: bool) -> bool:
        return one.place in measured or not whole or one.split not in self.splits

    def _models(self, runs: Sequence[Run]) -> list[ModelRow]:
        before = self.card.models if self.card is not None and self.card.release == self.spec.release else ()
        return [*before, *(model_row(run, self.spec) for run in runs)]

    def write(self, card: Card) -> None:
        """Write the measured part of the card below the head that is there.

        Raises:
            OSError: It cannot be written.
        """
        head = self.text or new_head(self.spec)
        self.path.write_text(
            written(head, card.bands, card.models, card.saturated, card.release), encoding="utf-8", newline="\n"
        )

    def refuse_moved(self, found: Sequence[Measured]) -> None:
        """Refuse to write other bands over those of the same release.

        Raises:
            ConfigError: Something moved, and the release is still the one of the card.
        """
        if self.card is None or self.card.release != self.spec.release:
            return
        known = {one.place for one in self.card.bands}
        there = [one for one in found if band(one, self.spec, self.splits.get(one.row.split)).place in known]
        if gone := moved(self.card, there, self.spec):
            raise ConfigError(
                f"{len(gone)} bands of {self.spec.id} release {self.spec.release} have moved",
                why=f"{gone[0].row}: {gone[0].what}",
                fix="give the spec a new release; --unreleased where nobody has this one yet",
            )


def keep(spec: EnvSpec, splits: dict[str, SplitSpec], path: Path | None = None) -> Kept:
    """Read the card of an environment, where there is one.

    Raises:
        DataError: It is malformed, or of another environment.
    """
    path = path or card_path(spec)
    if not path.exists():
        return Kept(spec, splits, path, "", None)
    text = path.read_text(encoding="utf-8")
    try:
        card = parse(text, spec.slug)
    except ContractError as error:
        raise DataError(
            f"{path} is no score card", why=error.why, fix="mend it, or name another: --card FILE"
        ) from error
    if card.env != spec.id:
        raise DataError(f"{path} is the card of {card.env}", why=f"this is {spec.id}", fix="name another: --card FILE")
    return Kept(spec, splits, path, text, card)


def sees(spec: EnvSpec, player: str) -> tuple[bool, tuple[str, ...]]:
    """Return whether a player is shown the scenario, and the options it asks for itself.

    Raises:
        PolicyError: There is no such player.
    """
    made = resolve(player, spec)()
    return isinstance(made, Privileged), tuple(wanted_options(made, spec))


def _seen(spec: EnvSpec, bands: Sequence[Band]) -> list[tuple[Band, tuple[str, ...]]]:
    known = {player: sees(spec, player) for player in dict.fromkeys(one.player for one in bands)}
    return [(one, known[one.player][1]) for one in bands if not known[one.player][0]]


def splits_of(spec: EnvSpec, data: str | None) -> dict[str, SplitSpec]:
    """Return the splits of an environment, those of its data included.

    Raises:
        UserError: Some subclass: it cannot be made, or the data cannot be read.
    """
    takes = any(option.name == "data" for option in spec.options)
    made = registry.make_from(spec, **({"data": data} if data is not None and takes else {}))
    try:
        return dict(made.splits())
    finally:
        made.close()


__all__ = ["Kept", "Saturated", "keep", "sees", "splits_of"]
