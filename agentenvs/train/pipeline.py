"""A method put together: its plug-ins made from a configuration, and checked against each other."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from agentenvs.core.errors import ConfigError
from agentenvs.train import methods, sampling
from agentenvs.train.config import TrainConfig
from agentenvs.train.interfaces import (
    Credit,
    Library,
    Loss,
    PolicyWrapper,
    RolloutHook,
    Signal,
    TaskSampler,
    credits_,
    hooks,
    libraries,
    losses,
    registries,
    samplers,
    signals,
    wrappers,
)
from agentenvs.train.plugins import ROLLOUT, Plugin, Registry, check_needs

P = TypeVar("P", bound=Plugin)


@dataclass(slots=True)
class Pipeline:
    """The plug-ins of a run, in the order they act."""

    recipe: methods.Recipe
    sampler: TaskSampler
    hooks: list[RolloutHook]
    signals: list[Signal]
    credits: list[Credit]
    loss: Loss
    library: Library | None = None
    wrapper: PolicyWrapper | None = None

    def plugins(self) -> list[Plugin]:
        """Return all plug-ins in their order."""
        kept = [] if self.library is None else [self.library]
        through = [] if self.wrapper is None else [self.wrapper]
        return [self.sampler, *kept, *self.hooks, *self.signals, *self.credits, self.loss, *through]

    def state_dict(self) -> dict[str, Any]:
        """Return what all carry from step to step."""
        return {f"{place} {plugin.name}": plugin.state_dict() for place, plugin in enumerate(self.plugins())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what :meth:`state_dict` returned.

        Raises:
            ConfigError: It is of other plug-ins.
        """
        own = {f"{place} {plugin.name}": plugin for place, plugin in enumerate(self.plugins())}
        if set(own) != set(state):
            raise ConfigError("the checkpoint is of other plug-ins", why=f"{sorted(state)}, not {sorted(own)}")
        for name, plugin in own.items():
            plugin.load_state_dict(state[name])


def assemble(config: TrainConfig, provided: Iterable[str]) -> Pipeline:
    """Make the plug-ins of a run.

    Args:
        config: The run's.
        provided: Fields that environments and engine provide beside :data:`ROLLOUT`.

    Raises:
        ConfigError: No such method or plug-in, or settings that make no sense.
        NeedError: A plug-in needs what nothing before it provides.
    """
    recipe = methods.get(config.method)
    settings = dict(config.method_settings)
    own = recipe.sampler or (sampling.InOrder.name, {})
    sampler = samplers.make(str(config.sampler.get("name", own[0])), _merged(own[1], _without(config.sampler, "name")))
    made = Pipeline(
        recipe=recipe,
        sampler=sampler,
        hooks=[hooks.make(name, one) for name, one in [*_own(recipe.hooks, settings), *config.hooks.items()]],
        signals=[signals.make(name, one) for name, one in [*_own(recipe.signals, settings), *config.signals.items()]],
        credits=[credits_.make(name, one) for name, one in _own(recipe.credits, settings)],
        loss=losses.make(recipe.loss[0], _merged(recipe.loss[1], settings.pop(recipe.loss[0], {}))),
        library=_one(libraries, recipe.library, config.library),
        wrapper=_one(wrappers, recipe.wrapper, config.wrapper),
    )
    for hook in made.hooks:
        hook.library = made.library
    if settings:
        raise ConfigError(f"the method {recipe.name} has no plug-in {sorted(settings)[0]!r}")
    made.loss.aggregation = recipe.aggregation
    every = [kind for registry in registries().values() for kind in registry.classes()]
    check_needs(made.plugins(), ROLLOUT | set(provided), every)
    _warn(made)
    return made


def _own(
    chosen: Iterable[tuple[str, Mapping[str, Any]]], settings: dict[str, Mapping[str, Any]]
) -> list[tuple[str, Mapping[str, Any]]]:
    return [(name, _merged(one, settings.pop(name, {}))) for name, one in chosen]


def _one(registry: Registry[P], own: tuple[str, Mapping[str, Any]] | None, asked: Mapping[str, Any]) -> P | None:
    """Return the plug-in that is asked for, or the method's own; None where there is neither."""
    name = asked.get("name", own[0] if own else None)
    if name is None:
        if asked:
            raise ConfigError(f"the {registry.kind} has no name", fix=f"one of: {', '.join(registry.names())}")
        return None
    below = own[1] if own and own[0] == name else {}
    return registry.make(str(name), _merged(below, _without(asked, "name")))


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    return {**below, **above}


def _without(form: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in form.items() if key != name}


def _warn(pipeline: Pipeline) -> None:
    """Say where advantages are standardised over another measure than the loss adds up."""
    for credit in pipeline.credits:
        token = pipeline.loss.aggregation in {"token-mean", "constant", "response-sum"}
        if credit.kind == "normaliser" and credit.measure == "episode" and token:
            warnings.warn(
                f"{credit.name} standardises over episodes, but the loss adds up tokens: a mean that depends on "
                "lengths is left (SPO++, arXiv 2608.24870)",
                stacklevel=2,
            )
