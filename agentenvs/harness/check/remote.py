"""An environment behind a wire: what can be told of it by playing.

State keys are read off the traces a server hands its clients, effects off its records. Its source, its scenarios, forks
and snapshots are not to be seen; where the same release is installed here, its players play and its records are
verified in this process.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentenvs.client import ClientSettings, RemoteEnv
from agentenvs.client.calls import Call, Dialogue
from agentenvs.client.endpoint import Endpoint
from agentenvs.client.lines import Line
from agentenvs.client.reading import read
from agentenvs.core import registry
from agentenvs.core.canon import JSON, canonical_bytes
from agentenvs.core.environment import Environment
from agentenvs.core.errors import ConfigError, UserError
from agentenvs.core.record import parse_records
from agentenvs.core.spec import SplitSpec
from agentenvs.core.task import TaskRef
from agentenvs.harness.check.episodes import Episode, Turn
from agentenvs.harness.check.findings import Sight, Skip
from agentenvs.harness.check.subject import Effort, Subject, slowed
from agentenvs.harness.stage import Stage

if TYPE_CHECKING:
    import httpx

_WIRE = "it is not on the wire"
_THERE = "it is the server's affair"


class Remote(Subject):
    """An environment on a server.

    Args:
        env: Id or slug; the only one of the server where None.
        url: The server.
        options: Options its episodes are played with.
        effort: How much is tried.
        split: The one split to look at.
        token: What the server asks of its clients; that of ``AGENTENVS_TOKEN`` where None.
        transport: What carries the requests instead of a connection.

    Raises:
        UserError: Some subclass: no such server, no such environment there, or several and none was named.
    """

    sights = frozenset({Sight.STATE, Sight.TRACE, Sight.RECORD})
    unseen: Mapping[Sight, str] = {
        Sight.OBJECT: _WIRE,
        Sight.SCENARIO: _THERE,
        Sight.PROCESS: _THERE,
        Sight.SOURCE: _THERE,
    }
    feeds = False

    def __init__(
        self,
        env: str | None,
        url: str,
        options: Mapping[str, Any],
        effort: Effort,
        split: str | None = None,
        *,
        token: str | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._url, self._token, self._transport = url, token, transport
        stage = Stage(env or self._only(), url, token=token, transport=transport)
        super().__init__(f"{stage.spec.id} at {url}", stage.spec, options, slowed(effort), split)

    def _make(self, options: Mapping[str, Any]) -> RemoteEnv:
        machine = [option.name for option in self.spec.options if option.secret]
        public = {name: value for name, value in options.items() if name not in machine}
        own = {name: value for name, value in options.items() if name in machine}
        return RemoteEnv(
            self.spec.id,
            self._url,
            token=self._token,
            transport=self._transport,
            options=public,
            machine=own,
            trace=True,
        )

    def splits(self) -> dict[str, SplitSpec]:
        """Return the splits by name."""
        return self.once("splits", lambda: self.make().splits())

    def watch(self, env: Any, ref: TaskRef, *, traced: bool = True) -> Episode:
        """Return an episode of an instance."""
        return _WireEpisode(env, ref, inside=False, traced=traced)

    def record(self, ref: TaskRef, actions: Sequence[JSON]) -> bytes:
        """Return the server's record of an episode; see :meth:`Subject.record`."""
        env = self.make()
        self.watch(env, ref).play(actions)
        data = _record_of(env)
        self.tidy()
        return data

    def complete(self, episode: Episode) -> None:
        """Read the effects off the record of a play; see :meth:`Subject.complete`."""
        record = parse_records(_record_of(episode.env))[0]
        for turn, line in zip(episode.turns, (record.header, *record.turns), strict=False):
            turn.effects = list(line["effects"])

    def verifier(self) -> Environment:
        """Return an instance of the same release in this process; see :meth:`Subject.verifier`."""
        try:
            spec = registry.spec(self.spec.id)
        except UserError as error:
            raise Skip("it is not installed here, so no record can be played again", None) from error
        if spec.release != self.spec.release:
            raise Skip(f"release {spec.release} is installed here, the server's is {self.spec.release}")
        return self.adopt(registry.make_from(spec, **self.options))

    def _only(self) -> str:
        """Return the id of the only environment of the server.

        Raises:
            ConfigError: It has several, or none.
        """
        endpoint = Endpoint(self._url, self._token)
        line = Line(endpoint, ClientSettings(), self._transport)
        try:
            ids = line.carry(_listed(endpoint.host))
        finally:
            line.hang_up()
        if len(ids) != 1:
            raise ConfigError(
                f"the server at {endpoint.host} has {len(ids)} environments",
                why=", ".join(ids),
                fix="name one of them: --env ID",
            )
        return ids[0]


class _WireEpisode(Episode):
    """An episode whose inside is known by traces."""

    def _seen(self, shown: dict[str, JSON]) -> Turn:
        canonical_bytes(shown)
        trace = self.env.last_trace if "reward" in shown else None
        if trace is None:
            return Turn(shown)
        if self.turns[0].state is None:
            self.turns[0].state = trace.state_before
        form = json.loads(canonical_bytes(trace.to_json()))
        return Turn(shown, trace.state_after, form if self.traced else None, [], trace.valid, trace.error)


def _record_of(env: RemoteEnv) -> bytes:
    env.finish("abandoned")
    return env.record()


def _listed(host: str) -> Dialogue[list[str]]:
    answer = yield Call("GET", "/v1/envs")
    return read(answer, host, lambda form: [str(line["id"]) for line in form["envs"]])
