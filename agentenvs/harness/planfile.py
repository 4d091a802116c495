"""``plan.json``: what a run set out to do, written before the first episode, so that it can go on after any end.

It holds what was asked for, as far as it belongs to the run and not to the machine: no address of a server, no token,
no folder of data; whoever goes on with a run gives those again. It also holds what the run's manifest will say of the
environment, the player and the model: a run goes on only with the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from agentenvs.core.canon import JSON, canonical_bytes
from agentenvs.core.errors import ConfigError, DataError
from agentenvs.harness.manifest import AgentEntry, EnvEntry, ModelEntry
from agentenvs.harness.model_settings import OpenAISettings
from agentenvs.harness.proxy.settings import ProxySettings

NAME = "plan.json"


class PlanFile(BaseModel):
    """See the module."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    run_id: str
    created: str
    version: str
    """Of agentenvs."""
    env: str
    """As it was asked for."""
    policy: str
    split: str
    indices: list[int]
    """In order of number."""
    trials: int
    concurrency: int
    options: dict[str, Any]
    machine_options: list[str]
    """Names of further options that were given."""
    served: bool
    """Whether a server played the worlds."""
    episode_seconds: float | None
    stream: bool
    settings: dict[str, Any] | None
    """Of the model, spelled as :meth:`OpenAISettings.parse` reads them; under ``proxy``, those of a program's proxy."""
    entry: EnvEntry
    agent: AgentEntry
    model: ModelEntry | None
    price_table: str | None

    def write(self, folder: Path) -> None:
        """Write it.

        Raises:
            DataError: The disk does not take it.
        """
        try:
            (folder / NAME).write_bytes(canonical_bytes(self.model_dump(mode="json")) + b"\n")
        except OSError as error:
            raise DataError(f"the plan of {folder} cannot be written", why=str(error), fix="make room") from error

    def differences(self, other: PlanFile) -> list[str]:
        """Return the names of what must not change when a run goes on, and has: fields of the manifest."""
        found = [name for name in ("version", "split", "indices") if getattr(self, name) != getattr(other, name)]
        for part in ("entry", "agent", "model", "price_table"):
            mine, theirs = getattr(self, part), getattr(other, part)
            if mine == theirs:
                continue
            if not isinstance(mine, BaseModel) or not isinstance(theirs, BaseModel):
                found.append(part)
                continue
            one, two = mine.model_dump(), theirs.model_dump()
            found += [f"{part}.{name}" for name in one if one[name] != two[name]]
        return found


def read(folder: Path) -> PlanFile:
    """Read the plan of a run.

    Raises:
        DataError: There is none, or it is damaged.
    """
    path = folder / NAME
    try:
        return PlanFile.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        fix = "give the folder of a run; one that was made before runs had plans cannot go on"
        raise DataError(f"there is no plan at {path}", fix=fix) from error
    except OSError as error:
        raise DataError(f"the plan {path} cannot be read", why=str(error)) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise DataError(f"{path} is no plan of a run", why=f"{where}: {first['msg']}") from error


def spelled(settings: Any) -> dict[str, Any] | None:
    """Return the settings of a model as JSON; None where there are none.

    Raises:
        ConfigError: They are of no kind that can be written down.
    """
    if settings is None:
        return None
    if isinstance(settings, ProxySettings):
        return {**(spelled(settings.model) or {}), "proxy": settings.spelled()}
    if not isinstance(settings, OpenAISettings):
        raise ConfigError(f"a {type(settings).__name__} holds no settings", fix="give OpenAISettings")
    given = {one.name: getattr(settings, one.name) for one in fields(settings)}
    return {name: _word(value) for name, value in given.items() if value is not None}


def settings_of(form: Mapping[str, Any] | None) -> OpenAISettings | ProxySettings | None:
    """Read settings back.

    Raises:
        ConfigError: A value that makes no sense.
    """
    if form is None:
        return None
    model = OpenAISettings.parse(**{name: value for name, value in form.items() if name != "proxy"})
    return ProxySettings.parse(model, **form["proxy"]) if "proxy" in form else model


def _word(value: Any) -> JSON:
    if isinstance(value, Decimal | Path):
        return str(value)
    return dict(value) if isinstance(value, Mapping) else value
