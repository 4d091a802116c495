"""An environment in this process: a class, or what the registry knows under an id.

One that declares ``execution: process`` is made as everywhere else, in a worker process of its own, so that nothing it
does can harm the check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentenvs.core import registry, targets
from agentenvs.core.canon import JSON
from agentenvs.core.environment import Environment
from agentenvs.core.hosting import Hosted
from agentenvs.core.record import Recorded
from agentenvs.core.spec import EnvSpec, OptionSpec, SplitSpec
from agentenvs.core.task import TaskRef
from agentenvs.harness.check import altering
from agentenvs.harness.check.findings import Sight
from agentenvs.harness.check.subject import Effort, Subject, slowed

_ALTERED = "agentenvs.harness.check.altered:make"
_ALTERATION = "check_alteration"
_ALL = frozenset(Sight)


class Local(Subject):
    """An environment of which this process has the class.

    Args:
        name: What the caller called it.
        spec: What it says of itself.
        entry_point: ``module:Class``.
        cls: The class; looked up by the entry point where None.
        options: Options it is made with.
        effort: How much is tried.
        split: The one split to look at.
    """

    def __init__(
        self,
        name: str,
        spec: EnvSpec,
        entry_point: str,
        cls: type[Environment] | None,
        options: Mapping[str, Any],
        effort: Effort,
        split: str | None = None,
    ) -> None:
        self.hosted = spec.capabilities.execution == "process"
        super().__init__(name, spec, options, slowed(effort) if self.hosted else effort, split)
        self.entry_point = entry_point
        self.cls = cls
        self.sights = _ALL
        if "<locals>" in entry_point or entry_point.startswith("__main__:"):
            self.sights -= {Sight.SOURCE}
            self.unseen = {Sight.SOURCE: "its class cannot be imported by another process"}

    def _make(self, options: Mapping[str, Any]) -> Environment:
        if self.hosted or self.cls is None:
            return registry.make_from(self.spec, **options)
        return self.cls(**options)

    def splits(self) -> dict[str, SplitSpec]:
        """Return the splits by name."""
        return self.once("splits", lambda: self.make().splits())

    def record(self, ref: TaskRef, actions: Sequence[JSON]) -> bytes:
        """Return the record of an episode; see :meth:`Subject.record`."""
        recorded = Recorded(self.make())
        recorded.reset(ref)
        for action in actions:
            if recorded.ended:
                break
            recorded.step(action)
        recorded.finish("abandoned")
        data = recorded.to_bytes()
        self.tidy()
        return data

    def verifier(self) -> Environment:
        """Return an instance; see :meth:`Subject.verifier`."""
        made: Environment = self.make()
        return made

    def altered(self, alteration: JSON, **more: Any) -> Environment:
        """Make an instance whose scenarios have other secrets; see :mod:`agentenvs.harness.check.altering`.

        Args:
            alteration: One of those that :func:`agentenvs.harness.check.altering.alterations` returns; None for none.
            **more: More options.
        """
        options = {**self.options, **more}
        if alteration is None:
            made = self._make(options)
        elif self.hosted:
            made = altered_guest(self.spec, self.entry_point, options, alteration)
        else:
            made = self._make(options)
            altering.alter(made, alteration)
        return self.adopt(made)

    def inside(self) -> Environment:
        """Return an instance in this process, which must not be played where it is hosted."""
        made: Environment = registry.load(self.entry_point)(**self.options) if self.hosted else self.make()
        return self.adopt(made)


def altered_guest(spec: EnvSpec, entry_point: str, options: Mapping[str, Any], alteration: JSON) -> Environment:
    """Make an environment in a worker process that is told to alter it; see :mod:`agentenvs.harness.check.altered`."""
    told = OptionSpec(_ALTERATION, "str", None, "how it is altered", secret=True)
    guest = replace(spec, entry_point=_ALTERED, options=(*spec.options, told))
    return Hosted(guest, **options, **{_ALTERATION: altering.told(entry_point, alteration)})


def of_class(cls: type[Any], options: Mapping[str, Any], effort: Effort, split: str | None) -> Local:
    """Return the subject that a class is.

    Raises:
        ConfigError: It is no environment, or has no spec.
    """
    spec = targets.checked(cls)
    entry_point = f"{cls.__module__}:{cls.__qualname__}"
    return Local(entry_point, spec, entry_point, cls, options, effort, split)


def of_id(name: str, options: Mapping[str, Any], effort: Effort, split: str | None) -> Local:
    """Return the subject that an id or a slug names.

    Raises:
        UnknownEnvError: There is none.
    """
    spec = registry.spec(name)
    return Local(spec.id, spec, spec.entry_point, None, options, effort, split)
