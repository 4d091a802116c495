"""verl-agent (GiGPO) and its forks: worlds as its vectors of environments, a projection, and an environment manager.

    envs = build_world_envs("household", seed=0, env_num=16, group_n=8)
    manager = WorldEnvironmentManager(envs, world_projection, config)

A group is ``group_n`` environments beside each other that play one scenario. The prompt is the harness's protocol
``verl-agent``, in its wording for household and a plain one for other worlds. GiGPO groups steps by their anchor: the
text of the observation, as in the original, or with ``anchor="state_key"`` the key of the state, which tells states
apart that look alike. Its loop goes on stepping an episode that is over; that answers the same again and is worth
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from agentenvs.adapters.plugs.episode import Episode, Heard, outcome
from agentenvs.adapters.plugs.lazy import attributes, needed
from agentenvs.core.canon import JSON
from agentenvs.core.errors import ConfigError
from agentenvs.core.spec import EnvSpec
from agentenvs.harness import protocol as protocols
from agentenvs.harness.history import Conversation, Said, Shown, assistant, show
from agentenvs.harness.parsers import verl_agent
from agentenvs.harness.prompting import describe_actions
from agentenvs.harness.reading import read_text

SCALE = 10.0
"""What a task that is done is worth there."""

_END = """
Reason step by step first, and put all of this reasoning between <think> and </think>.
Then put your action between <action> and </action>.
"""
_PLAIN = {
    "first": "{{about}}\n\nYour current observation is: {{seen}}\n" + _END,
    "later": "{{about}}\n\nThe first observation was: {{task}}\nYou have taken {{steps}} step(s). The last {{kept}}:\n"
    "{{pairs}}\nYou are now at step {{step}} and your current observation is: {{seen}}\n" + _END,
}


class WorldEnvs:
    """Episodes side by side, ``group_n`` of each scenario.

    Args:
        env: As :func:`agentenvs.make` takes it.
        seed: The number of the first scenario.
        env_num: Scenarios a reset; each reset goes on to the next ones.
        group_n: Episodes of each.
        split: The default one where None; that for evaluations where ``is_train`` is False.
        scale: What the reward of the verdict is multiplied by.
        anchor: What GiGPO compares states by.

    Raises:
        UserError: As for :func:`agentenvs.make`.
    """

    def __init__(
        self,
        env: str,
        seed: int,
        env_num: int,
        group_n: int,
        *,
        is_train: bool = True,
        split: str | None = None,
        url: str | None = None,
        scale: float = SCALE,
        anchor: Literal["text", "state_key"] = "text",
        **options: Any,
    ) -> None:
        if anchor not in ("text", "state_key"):
            raise ConfigError(f"{anchor!r} is no anchor", fix="text or state_key")
        self.group_n, self.env_num, self.scale, self.anchor = group_n, env_num, scale, anchor
        self._next = seed
        first = Episode(env, url=url, **options)
        self.spec: EnvSpec = first.spec
        self._split = split or (None if is_train else self.spec.eval_split or None)
        if "admissible" in {option.name for option in self.spec.options}:
            options = {"admissible": True, **options}
            first.close()
            first = Episode(env, url=url, **options)
        rest = env_num * group_n - 1
        self.episodes = [first, *(Episode(env, url=url, **options) for _ in range(rest))]
        self._last: list[Heard | None] = [None] * len(self.episodes)

    @property
    def num_processes(self) -> int:
        """How many episodes there are."""
        return len(self.episodes)

    @property
    def get_admissible_commands(self) -> list[list[str]]:
        """What can be done in each; empty where that cannot be told."""
        return [list(episode.env.observation.admissible or ()) for episode in self.episodes]

    def reset(self, kwargs: Any = None) -> tuple[list[str], list[dict[str, Any]]]:
        """Begin the next scenarios."""
        infos: list[dict[str, Any]] = []
        for place, episode in enumerate(self.episodes):
            ref = episode.address(self._split, self._next + place // self.group_n)
            episode.begin(ref)
            self._last[place] = None
            infos.append({"won": False, "scenario": f"{ref.split}/{ref.index}", "state_key": episode.anchor})
        self._next += self.env_num
        return self._seen(), infos

    def step(self, actions: Sequence[Any]) -> tuple[list[str], list[float], list[bool], list[dict[str, Any]]]:
        """Play a turn of each."""
        rewards, infos = [], []
        for place, (episode, action) in enumerate(zip(self.episodes, actions, strict=True)):
            last = self._last[place]
            over = last is not None and last.done
            heard = last if over and last is not None else episode.play(action)
            self._last[place] = heard
            rewards.append(0.0 if over else heard.reward * self.scale)
            infos.append({"won": False, **heard.facts, **self._ended(episode, heard)})
        return self._seen(), rewards, [last is not None and last.done for last in self._last], infos

    def anchors(self) -> list[str]:
        """Return what GiGPO compares the present states by."""
        if self.anchor == "text":
            return self._seen()
        return [episode.anchor for episode in self.episodes]

    def close(self) -> None:
        """Give up the episodes."""
        for episode in self.episodes:
            episode.close()

    def _seen(self) -> list[str]:
        return [episode.env.observation.text for episode in self.episodes]

    def _ended(self, episode: Episode, heard: Heard) -> dict[str, Any]:
        if not heard.done:
            return {}
        verdict = episode.verdict()
        return {"won": verdict.success, "outcome": outcome(verdict)}


def build_world_envs(env: str, seed: int, env_num: int, group_n: int, **arguments: Any) -> WorldEnvs:
    """Return :class:`WorldEnvs`, by the name of verl-agent's other builders."""
    return WorldEnvs(env, seed, env_num, group_n, **arguments)


def world_projection(
    text_actions: Sequence[str], pools: Sequence[Sequence[str]], spec: EnvSpec | None = None
) -> tuple[list[Any], list[int]]:
    """Return what replies play, and for each whether it kept the format.

    Args:
        text_actions: What the model said.
        pools: Admissible commands of each.
        spec: The world; one that takes no text has its actions written as JSON between the tags.
    """
    found = [verl_agent(said, pool) for said, pool in zip(text_actions, pools, strict=True)]
    actions: list[Any] = [parsed.action or "" for parsed in found]
    if spec is not None and "text" not in spec.accepts:
        actions = [_form(said, spec) for said in text_actions]
    return actions, [int(parsed.failure is None) for parsed in found]


def _form(said: str, spec: EnvSpec) -> Any:
    from agentenvs.harness.chat import Reply

    inner = said.partition("<action>")[2].partition("</action>")[0].strip().replace("\n", " ")
    reply = Reply(f"Action: {inner}", (), None, None, None, None, None, ())
    return read_text(reply, protocols.load("native"), spec, ()).action


def _prompts(spec: EnvSpec) -> protocols.Protocol:
    found = protocols.load("verl-agent")
    if spec.slug in found.envs:
        return found
    about = f"{spec.title}. {spec.description}\n{describe_actions(spec)}".replace("{", "{{").replace("}", "}}")
    prompts = {name: text.replace("{{about}}", about) for name, text in _PLAIN.items()}
    prompts = {name: _single(text) for name, text in prompts.items()}
    return found.model_copy(update={"prompts": {**found.prompts, **prompts}, "envs": ()})


def _single(text: str) -> str:
    """Return a template with its own fields in single braces."""
    for field in ("seen", "task", "steps", "kept", "pairs", "step"):
        text = text.replace("{{" + field + "}}", "{" + field + "}")
    return text


def _manager() -> type:
    base = needed("agent_system.environments.base", "verl-agent: put its checkout on PYTHONPATH")

    class WorldEnvironmentManager(base.EnvironmentManagerBase):  # type: ignore[misc, name-defined]
        """Prompts and answers of :class:`WorldEnvs` for verl-agent's rollout loop."""

        def __init__(self, envs: WorldEnvs, projection_f: Any, config: Any) -> None:
            super().__init__(envs, projection_f, config)
            kept = getattr(getattr(config, "env", None), "history_length", None)
            self.protocol = _prompts(envs.spec).with_history(f"last:{kept}" if kept else None)
            self._talks: list[Conversation] = []
            self._shown: list[Shown] = []

        def reset(self, kwargs: Any = None) -> tuple[dict[str, Any], list[dict[str, Any]]]:
            """Begin the next scenarios."""
            _, infos = self.envs.reset(kwargs)
            self._talks, self._shown = [], self._views(first=True)
            for shown in self._shown:
                talk = Conversation(self.protocol, [], task=shown.seen)
                talk.begin(shown)
                self._talks.append(talk)
            return self._told(), infos

        def step(self, text_actions: list[str]) -> tuple[dict[str, Any], Any, Any, list[dict[str, Any]]]:
            """Play a turn of each."""
            actions, valids = self.projection_f(text_actions, self.envs.get_admissible_commands, spec=self.envs.spec)
            _, rewards, dones, infos = self.envs.step(actions)
            before, self._shown = self._shown, self._views(first=False)
            for place, talk in enumerate(self._talks):
                said = Said(assistant(text_actions[place]), str(actions[place]))
                talk.add(before[place], said, self._shown[place].seen, ())
                infos[place]["is_action_valid"] = np.array(valids[place])
            return self._told(), np.array(rewards), np.array(dones), infos

        def _views(self, *, first: bool) -> list[Shown]:
            return [show(self.protocol, episode.env.observation, first=first) for episode in self.envs.episodes]

        def _told(self) -> dict[str, Any]:
            pairs = zip(self._talks, self._shown, strict=True)
            texts = [str(talk.prompt(shown).messages[-1]["content"]) for talk, shown in pairs]
            return {"text": texts, "image": None, "anchor": self.envs.anchors()}

    return WorldEnvironmentManager


__getattr__ = attributes(__name__, {"WorldEnvironmentManager": _manager}, globals())


def facts_of(infos: Sequence[Mapping[str, Any]]) -> list[dict[str, JSON]]:
    """Return the facts of a turn of each episode, out of ``infos``: verl-agent keeps ``is_action_valid`` alone."""
    names = ("turn", "valid", "error", "state_before", "state_key", "potential")
    return [{name: info[name] for name in names if name in info} for info in infos]
