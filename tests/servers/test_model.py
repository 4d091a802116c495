"""The server against a small model of it, in any order, through every door, with answers lost and servers killed.

The model is a few dicts and one world a session, played in step. Each request goes through one to three doors in turn
(any worker; HTTP, agent, socket, batch), as a client sends it whose answers are lost: all answers must be the same
bytes, and what the model says. Time passes in small steps, as it does for a server that sweeps.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from agentenvs.core import registry
from agentenvs.core.database import Kept
from agentenvs.core.record import parse_records
from agentenvs.core.replay import replay
from agentenvs.core.task import TaskRef
from agentenvs_servers.journal import operations
from agentenvs_servers.journal.opening import open_journal
from agentenvs_servers.problems import CATALOGUE
from tests.envs.fixtures import register_fixtures
from tests.servers.model import LIMITS, Answer, Hut, Known, Server
from tests.servers.wire import Clock, key

T = TypeVar("T")

STEP = 4.0
"""Seconds between two sweeps."""
SLACK = 10.0 + 5.0 + 2 * STEP
"""How much later than its model a session of several workers may expire."""

TOOL = {"tool": "look", "arguments": {}}
ACTIONS = ("look", "look", "look", "what?", TOOL, TOOL, {"b": 1, "a": [None]}, "\u2603", 7, "win", "raise")
SAID = ({"message": "Which order?"}, {"message": "Hello"}, {"tool": "refund", "arguments": {"order": "A-1"}}, "x")

RARE = ("kill", "kill all", "wait", "wait long", "close", "close")

workers = st.integers(0, 1)
doors = st.lists(
    st.tuples(workers, st.sampled_from(["http", "agent", "socket", "batch", "frames"])), min_size=1, max_size=3
)
plain_doors = st.lists(st.tuples(workers, st.sampled_from(["http", "socket"])), min_size=1, max_size=3)
places = st.integers(0, 1_000)


class Machine(RuleBasedStateMachine):
    """Server and model."""

    empty: ClassVar[Path]
    """A journal in which nothing is yet."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp())
        self.clock = Clock()
        self.sessions: list[Known] = []
        self.creates: list[tuple[dict[str, Any], bytes]] = []
        self.forks: list[tuple[Known, dict[str, Any], bytes]] = []
        self.servers: list[Server] = []
        self.started = 0
        self.epoch = self.clock.now

    def teardown(self) -> None:
        try:
            for known in self.sessions:
                for episode in known.ended:
                    self._record(known, episode, 0)
            for server in self.servers:
                self._run(server.kill())
        finally:
            self.runner.close()
            shutil.rmtree(self.folder)

    # ---- the world outside -----------------------------------------------------------------------------------------

    @initialize(
        count=st.integers(1, 2), envs=st.lists(st.sampled_from(["hut", "hut", "clerk"]), min_size=1, max_size=3)
    )
    def start(self, count: int, envs: list[str]) -> None:
        shutil.copy(self.empty, self.folder / "journal.db")
        self.shared = count > 1
        self.servers = [self._start(fresh=number == 0) for number in range(count)]
        for index, env in enumerate(envs):
            self._make(env, 200, index, None, [(0, "http")])

    @rule(
        what=st.sampled_from(["kill", "kill all", "wait", "wait", "wait long", "close"]), place=places, ways=plain_doors
    )
    def happen(self, what: str, place: int, ways: list[tuple[int, str]]) -> None:
        """What is rarer than a turn."""
        if what == "close":
            self._end(place, ways)
        elif what.startswith("kill"):
            self._kill(place % 2, every=what == "kill all")
        else:
            self._wait(10 + place % 30 if what == "wait long" else 1 + place % 4)

    def _kill(self, place: int, *, every: bool) -> None:
        """Kill a worker, or all of them, which begins every time to live anew."""
        if every or not self.shared:
            for server in self.servers:
                self._run(server.kill())
            self._renew()
            self.epoch = self.clock.now
            self.servers = [self._start(fresh=number == 0) for number in range(len(self.servers))]
        else:
            self._run(self.servers[place].kill())
            self.servers[place] = self._start(fresh=False)

    def _renew(self) -> None:
        """Begin the time to live of every open session anew."""
        for known in self.sessions:
            if self._is_alive(known):
                known.born = known.touched = self.clock.now
            elif not self._is_dead(known):
                known.sure = False

    def _wait(self, steps: int) -> None:
        """Let time pass, and the servers sweep."""
        for _ in range(steps):
            self.clock.now += STEP
            for server in self.servers:
                self._run(server.wire.hall.sweep(now=True))

    # ---- sessions --------------------------------------------------------------------------------------------------

    @rule(
        env=st.sampled_from(["hut", "hut", "clerk"]),
        ttl=st.sampled_from([30, 60, 200]),
        index=st.integers(0, 2),
        count=st.sampled_from([None, None, 1, 2]),
        ways=plain_doors,
    )
    def create(self, env: str, ttl: int, index: int, count: int | None, ways: list[tuple[int, str]]) -> None:
        if not self._is_crowded():
            self._make(env, ttl, index, count, ways)

    def _make(self, env: str, ttl: int, index: int, count: int | None, ways: list[tuple[int, str]]) -> None:
        task = {"split": "few", "index": index} if env == "hut" else {"split": "train", "seed": index}
        body = {"env": env, "key": key(), "task": task, "ttl": ttl, "count": count}
        status, answer = self._create(body, ways)
        assert status == 201, answer
        self.creates.append((body, answer))
        form = json.loads(answer)
        for one in form["sessions"] if count is not None else [form]:
            self._take(one, TaskRef(task["split"], index), ttl)

    @rule(place=places, ways=plain_doors, other=st.booleans())
    def create_again(self, place: int, ways: list[tuple[int, str]], other: bool) -> None:
        body, answer = self.creates[place % len(self.creates)]
        if other:
            self._refused("key_conflict", self._create({**body, "ttl": body["ttl"] + 1}, ways))
        else:
            assert self._create(body, ways) == (201, answer)

    @rule(place=places, task=st.sampled_from([None, "same", 0, 1, 2]), ways=plain_doors)
    def reset(self, place: int, task: Any, ways: list[tuple[int, str]]) -> None:
        known = self._some(place)
        split = known.ref.split
        number = "index" if split == "few" else "seed"
        form = {"split": split, number: task} if isinstance(task, int) else task
        body = {"key": key(), "ends": known.episode, "task": form}
        found = self._reset(known, body, ways)
        if self._gone(known, found):
            return
        index = known.ref.index + 1 if task is None else known.ref.index if task == "same" else task
        if split == "few" and index > 2:
            self._refused("split_exhausted", found)
            return
        assert found[0] == 200, found
        known.reset = (body, found[1])
        known.ended[known.episode] = len(known.actions)
        known.old_keys.append(known.form["agent_key"])
        known.form = {**known.form, **json.loads(found[1])}
        known.ref = TaskRef(split, index)
        self._begin(known)

    @precondition(lambda self: any(known.reset for known in self.sessions))
    @rule(place=places, ways=plain_doors, other=st.booleans())
    def reset_again(self, place: int, ways: list[tuple[int, str]], other: bool) -> None:
        reset = [known for known in self.sessions if known.reset]
        known = reset[place % len(reset)]
        assert known.reset is not None
        body, answer = known.reset
        found = self._reset(known, {**body, "ends": "x"} if other else body, ways)
        if self._gone(known, found):
            return
        if other:
            self._refused("key_conflict", found)
        else:
            assert found == (200, answer)

    def _end(self, place: int, ways: list[tuple[int, str]]) -> None:
        known, ending = self._some(place), "truncated" if place % 2 else "abandoned"
        found = self._several(ways, lambda server, way: self._close(server, way, known, ending))
        if known.over != "closed" and self._gone(known, found):
            return
        if known.over == "closed":
            assert found == (200, known.farewell)
            return
        assert found[0] == 200, found
        form = json.loads(found[1])
        own = "aborted" if known.failed else known.env.ending or ending
        assert (form["open"], form["episode"], form["turn"], form["ending"]) == (False, known.episode, known.turn, own)
        known.over, known.farewell = "closed", found[1]
        known.ended[known.episode] = len(known.actions)

    @rule(place=places, ways=plain_doors)
    def status(self, place: int, ways: list[tuple[int, str]]) -> None:
        known = self._some(place)
        found = self._several(ways, lambda server, way: self._look(server, way, known))
        if self._gone(known, found):
            return
        form = json.loads(found[1])
        own = "aborted" if known.failed else known.env.ending
        assert (form["open"], form["episode"], form["turn"], form["ending"]) == (True, known.episode, known.turn, own)
        if known.last is not None and not known.failed:
            assert form["last"] == json.loads(known.last[1])

    @rule(place=places, way=st.tuples(workers, st.sampled_from(["http", "socket"])))
    def ping(self, place: int, way: tuple[int, str]) -> None:
        known = self._some(place)
        found = self._several([way], lambda server, kind: self._ping(server, kind, known))
        if not self._gone(known, found):
            assert found[0] == 200

    @rule(place=places, count=st.integers(1, 2), ways=plain_doors)
    def fork(self, place: int, count: int, ways: list[tuple[int, str]]) -> None:
        known, body = self._some(place), {"key": key(), "count": count}
        if self._is_crowded():
            return
        found = self._fork(known, body, ways)
        if known.form["env"] == "tests/Clerk-v0" and found[0] == CATALOGUE["not_forkable"].status != 410:
            found = self._step(known, "another", 1, "", [(0, "http")])  # it is refused whether or not it is over
        if self._gone(known, found):
            return
        if known.form["env"] == "tests/Clerk-v0":
            self._refused("episode_conflict", found)
        elif known.is_over:
            self._refused("episode_ended", found)
        else:
            assert found[0] == 201, found
            self.forks.append((known, body, found[1]))
            for form in json.loads(found[1])["sessions"]:
                self._take_fork(known, form)

    @precondition(lambda self: self.forks)
    @rule(place=places, ways=plain_doors, other=st.booleans())
    def fork_again(self, place: int, ways: list[tuple[int, str]], other: bool) -> None:
        known, body, answer = self.forks[place % len(self.forks)]
        found = self._fork(known, {**body, "count": body["count"] + 1} if other else body, ways)
        if self._is_alive(known):
            known.touched = self.clock.now
        # What was forked is there, whatever became of its original.
        if other:
            self._refused("key_conflict", found)
        else:
            assert found == (201, answer)

    # ---- turns -----------------------------------------------------------------------------------------------------

    @rule(place=places, turns=st.lists(st.tuples(places, doors), min_size=1, max_size=4))
    def steps(self, place: int, turns: list[tuple[int, list[tuple[int, str]]]]) -> None:
        known = self._some(place)
        for said, ways in turns:
            action = self._action(known, said)
            found = self._step(known, known.episode, known.turn + 1, action, ways)
            if not self._gone(known, found):
                self._played(known, action, found)

    @rule(place=places, said=places, ways=doors, again=doors)
    def step_and_again(self, place: int, said: int, ways: list[tuple[int, str]], again: list[tuple[int, str]]) -> None:
        self.steps(place, [(said, ways)])
        self.step_again(place, again)

    @rule(place=places, ways=doors)
    def step_again(self, place: int, ways: list[tuple[int, str]]) -> None:
        known = self._some(place)
        if known.last is None:
            return
        action, answer = known.last
        found = self._step(known, known.episode, known.turn, action, ways)
        if not self._gone(known, found):
            assert found == (CATALOGUE["environment_failed"].status if known.failed else 200, answer)

    @rule(place=places, ways=doors, shift=st.sampled_from([-2, -1, 0, 2, 3]))
    def step_amiss(self, place: int, ways: list[tuple[int, str]], shift: int) -> None:
        known = self._some(place)
        turn = known.turn + shift
        if turn < 1:
            return
        found = self._step(known, known.episode, turn, "nothing that was ever said", ways)
        if self._gone(known, found):
            return
        late = "episode_ended" if known.is_over else "turn_ahead"
        self._refused("turn_past" if shift < 0 else "turn_conflict" if shift == 0 else late, found)

    @precondition(lambda self: any(known.old_keys for known in self.sessions))
    @rule(place=places, ways=doors)
    def step_of_another_episode(self, place: int, ways: list[tuple[int, str]]) -> None:
        reset = [known for known in self.sessions if known.old_keys]
        known = reset[place % len(reset)]
        found = self._step(known, next(iter(known.ended)), 1, "look", ways, known.old_keys[0])
        if not self._gone(known, found):
            code = "closed" if ways[-1][1] == "agent" else "episode_conflict"
            self._refused(code, found)

    @rule(items=st.lists(st.tuples(places, places), min_size=1, max_size=5), ways=plain_doors)
    def batch(self, items: list[tuple[int, int]], ways: list[tuple[int, str]]) -> None:
        """Play turns of several sessions at once, some of them several of one session."""
        ahead: dict[int, int] = {}
        steps: list[tuple[Known, Any, dict[str, Any]]] = []
        for place, said in items:
            known = self._some(place)
            ahead[id(known)] = ahead.get(id(known), 0) + 1
            action = self._action(known, said)
            steps.append((known, action, _item(known, known.episode, known.turn + ahead[id(known)], action)))
        body = {"items": [item for _, _, item in steps]}
        # Asked again, all but the last turn of a session are past: so only the first answer is looked at whole.
        found = self._several(ways[:1], lambda server, way: self._steps(server, way, body))
        assert found[0] == 200
        for (known, action, item), reply in zip(steps, json.loads(found[1])["items"], strict=True):
            answer = reply["status"], json.dumps(reply.get("result", reply.get("problem"))).encode()
            if self._gone(known, answer):
                continue
            if item["turn"] != known.turn + 1:  # an earlier one of the batch was not played
                self._refused("episode_ended", answer)
            else:
                self._played(known, action, answer, exact=False)

    @precondition(lambda self: any(known.ended for known in self.sessions))
    @rule(place=places, number=places, worker=workers)
    def record(self, place: int, number: int, worker: int) -> None:
        ended = [known for known in self.sessions if known.ended]
        known = ended[place % len(ended)]
        self._record(known, list(known.ended)[number % len(known.ended)], worker)

    @invariant()
    def counts_are_right(self) -> None:
        """Of what is certainly open, nothing is missing."""
        if not self.servers:
            return
        alive = sum(self._is_alive(known) for known in self.sessions)
        journal = self.servers[0].wire.hall.journal
        assert journal is not None
        counted = self._run(journal.do(operations.open_sessions))
        possible = sum(known.over is None for known in self.sessions)
        assert alive <= counted <= possible, (alive, counted, possible)

    # ---- asking ----------------------------------------------------------------------------------------------------

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def _start(self, *, fresh: bool) -> Server:
        self.started += 1
        path = self.folder / "journal.db"
        return Server(path, self.clock, self.started, shared=self.shared, fresh=fresh, epoch=self.epoch)

    def _is_crowded(self) -> bool:
        return sum(known.over is None for known in self.sessions) > 20

    def _some(self, place: int) -> Known:
        return self.sessions[place % len(self.sessions)]

    def _several(self, ways: list[tuple[int, str]], ask: Any) -> Answer:
        """Ask through one door after another; all but the last answer are lost."""
        found = [self._run(ask(self.servers[place % len(self.servers)], way)) for place, way in ways]
        assert len({answer for answer in found if answer[0] < 400} | {found[-1]}) == 1, found
        return found[-1]

    def _create(self, body: dict[str, Any], ways: list[tuple[int, str]]) -> Answer:
        async def ask(server: Server, way: str) -> Answer:
            return await (server.post("/v1/sessions", body) if way == "http" else server.say("create", **body))

        return self._several(ways, ask)

    def _fork(self, known: Known, body: dict[str, Any], ways: list[tuple[int, str]]) -> Answer:
        async def ask(server: Server, way: str) -> Answer:
            if way == "http":
                return await server.post(f"/v1/sessions/{known.name}/fork", body)
            return await server.say("fork", session=known.name, **body)

        return self._several(ways, ask)

    def _reset(self, known: Known, body: dict[str, Any], ways: list[tuple[int, str]]) -> Answer:
        async def ask(server: Server, way: str) -> Answer:
            if way == "http":
                return await server.post(f"/v1/sessions/{known.name}/reset", body)
            return await server.say("reset", session=known.name, **body)

        return self._several(ways, ask)

    def _step(
        self, known: Known, episode: str, turn: int, action: Any, ways: list[tuple[int, str]], agent: str | None = None
    ) -> Answer:
        item = _item(known, episode, turn, action)
        short = {"turn": turn, "action": action}
        token = agent or known.form["agent_key"]

        async def ask(server: Server, way: str) -> Answer:
            if way == "http":
                return await server.post(f"/v1/sessions/{known.name}/step", {"episode": episode, **short})
            if way == "agent":
                return await server.post("/v1/agent/step", short, token)
            if way == "socket":
                return await server.say("step", **item)
            found = await self._steps(server, "http" if way == "batch" else "socket", {"items": [item]})
            assert found[0] == 200
            status = json.loads(found[1])["items"][0]["status"]
            name = b'"result":' if status == 200 else b'"problem":'
            return status, found[1].split(name, 1)[1].removesuffix(b"}]}").split(b',"retry_after":')[0]

        if agent is not None:  # refusals of the two scopes differ
            ways = ways[-1:]
        return self._several(ways, ask)

    async def _steps(self, server: Server, way: str, body: dict[str, Any]) -> Answer:
        return await (server.post("/v1/steps", body) if way == "http" else server.say("steps", **body))

    async def _close(self, server: Server, way: str, known: Known, ending: str) -> Answer:
        if way == "socket":
            return await server.say("close", session=known.name, ending=ending)
        answer = await server.wire.http.delete(f"/v1/sessions/{known.name}", params={"ending": ending})
        return answer.status_code, answer.content

    async def _look(self, server: Server, way: str, known: Known) -> Answer:
        if way == "socket":
            return await server.say("status", session=known.name)
        answer = await server.wire.get(f"/v1/sessions/{known.name}")
        return answer.status_code, answer.content

    async def _ping(self, server: Server, way: str, known: Known) -> Answer:
        if way == "socket":
            return await server.say("ping", session=known.name)
        return await server.post(f"/v1/sessions/{known.name}/ping", None)

    def _record(self, known: Known, episode: str, worker: int) -> None:
        wire = self.servers[worker % len(self.servers)].wire
        answer = self._run(wire.get(f"/v1/sessions/{known.name}/record?episode={episode}"))
        assert answer.status_code == 200, answer.text
        (record,) = parse_records(answer.content)
        assert len(record.turns) == known.ended[episode]
        assert replay(record).equal
        if episode == known.episode:
            assert record.ref == known.ref

    # ---- what must be so -------------------------------------------------------------------------------------------

    def _take(self, form: dict[str, Any], ref: TaskRef, ttl: int) -> None:
        env = registry.make(form["env"])
        known = Known(form, env, ref, self.clock.now, self.clock.now, ttl)
        assert form["ttl"] == {"idle": ttl, "absolute": LIMITS.absolute_ttl}
        assert not any(form[name] in other.form.values() for other in self.sessions for name in ("session", "episode"))
        self.sessions.append(known)
        self._begin(known)

    def _take_fork(self, known: Known, form: dict[str, Any]) -> None:
        now, last = self.clock.now, known.last
        if last is not None:
            last = last[0], last[1].replace(known.episode.encode(), form["episode"].encode(), 1)
        twin = Known(form, known.env.fork(), known.ref, now, now, known.ttl, turn=known.turn, last=last)
        assert (form["turn"], form["observation"]) == (known.turn, known.env.observation.to_json())
        twin.actions = list(known.actions)
        self.sessions.append(twin)

    def _begin(self, known: Known) -> None:
        first = known.env.reset(known.ref)
        assert known.form["observation"] == first.to_json()
        known.turn, known.last, known.failed, known.actions = 0, None, False, []

    def _action(self, known: Known, said: int) -> Any:
        choice = ACTIONS if known.form["env"] == Hut.spec.id else SAID
        return choice[said % len(choice)]

    def _played(self, known: Known, action: Any, found: Answer, *, exact: bool = True) -> None:
        if known.is_over:
            self._refused("episode_ended", found)
            return
        known.turn += 1
        if action == "raise":
            self._refused("environment_failed", found)
            known.failed, known.last = True, (action, found[1])
            if not exact:
                known.last = None
            return
        result = known.env.step(action)
        expected = {
            "episode": known.episode,
            "turn": known.turn,
            "observation": result.observation.to_json(),
            "reward": result.reward,
            "terminated": result.terminated,
            "truncated": result.truncated,
            "info": dict(result.info),
        }
        assert (found[0], json.loads(found[1])) == (200, expected), found
        known.actions.append(action)
        known.last = (action, found[1] if exact else json.dumps(expected, separators=(",", ":")).encode())

    def _is_alive(self, known: Known) -> bool:
        """Return whether nothing may have ended it yet."""
        now = self.clock.now
        if known.over is not None or not known.sure:
            return False
        return now - known.touched < known.ttl and now - known.born < LIMITS.absolute_ttl

    def _is_dead(self, known: Known) -> bool:
        """Return whether its time is certainly up."""
        slack = SLACK if self.shared else 0.0
        now = self.clock.now
        if not known.sure:
            return False
        return now - known.touched > known.ttl + slack or now - known.born > LIMITS.absolute_ttl + slack

    def _gone(self, known: Known, found: Answer) -> bool:
        """Return whether a session is over, which its model must agree with; note the touch otherwise."""
        code = json.loads(found[1]).get("code") if found[0] >= 400 else None
        if known.over is not None:
            if known.over != "closed" or code is not None:
                self._refused(known.over, found)
            return True
        if code == "expired":
            assert not self._is_alive(known), (self.clock.now, known)
            known.over = "expired"
            known.ended[known.episode] = len(known.actions)
            return True
        assert not self._is_dead(known), (self.clock.now, known)
        if not known.sure:
            known.sure, known.born = True, self.clock.now
        known.touched = self.clock.now
        return False

    def _refused(self, code: str, found: Answer) -> None:
        form = json.loads(found[1])
        assert (found[0], form.get("code")) == (CATALOGUE[code].status, code), found


def _item(known: Known, episode: str, turn: int, action: Any) -> dict[str, Any]:
    return {"session": known.name, "episode": episode, "turn": turn, "action": action}


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "journal.db"
    open_journal(str(path)).engine.dispose()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kept, "migrate", lambda kept, connection: None)  # it is a copy of this one
        yield path


def test_the_server_does_what_its_model_does(empty):
    registry.register(Hut.spec)
    register_fixtures()
    Machine.empty = empty
    more = os.environ.get("AGENTENVS_TEST_EXAMPLES")
    chosen = settings(
        max_examples=int(more or 60),
        stateful_step_count=50,
        deadline=None,
        derandomize=more is None,
        phases=[Phase.generate, Phase.shrink] if more else [Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Machine, settings=chosen)
