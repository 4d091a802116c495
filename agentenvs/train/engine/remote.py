"""Sampling by URL: servers that speak vLLM's ``/v1/completions``, token ids in, token ids and log-probabilities out.

It has the face of :class:`~agentenvs.train.engine.slots.Slots`: turns are submitted, and taken as they are done. A
conversation stays with one server, whose cache of prefixes it uses. New weights are written as a folder of Hugging
Face's that the servers can read, and each is told where. A server that does not answer is asked again, a bounded
number of times; one that answers nonsense, or other than it was asked, is refused.

Log-probabilities must be of the distribution that was sampled: start vLLM with ``--logprobs-mode
processed_logprobs``. Whether the weights are the trained ones is seen at each step, by the gap between sampler and
trainer.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from agentenvs.core.errors import ConfigError, ServiceError
from agentenvs.train.interfaces import Draw, Sampled, Sampling

RETRIED = frozenset((408, 409, 425, 429, 500, 502, 503, 504))
_SEEDS = 1 << 63


@dataclass(frozen=True)
class ServersConfig:
    """Servers that sample, and how they get new weights."""

    urls: tuple[str, ...] = ()
    """Up to the port; this process samples where there is none."""
    model: str = "policy"
    """What the servers call it (``--served-model-name``)."""
    folder: str = "weights"
    """Where new weights are written; every server must see it under the same path."""
    update: str = "sglang"
    """How a server is told of them: ``sglang`` (``/update_weights_from_disk``), ``vllm`` (its development mode: pause,
    ``/collective_rpc`` with ``reload_weights``, resume), or ``none``."""
    timeout: float = 300.0
    """Seconds a request may take."""
    retries: int = 4
    """Attempts after the first."""
    backoff: float = 0.5
    """Seconds before the second attempt; doubled each time."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if self.update not in ("sglang", "vllm", "none"):
            raise ValueError(f"update is {self.update!r}, not sglang, vllm or none")
        if self.timeout <= 0 or self.retries < 0 or self.backoff < 0:
            raise ValueError("a timeout is above 0, and neither retries nor backoff are below")


class RemoteSlots:
    """Samples turns on servers.

    Args:
        config: Which, and how.
        slots: How many conversations at a time.
        length: The most tokens of each.
        vocabulary: How many tokens there are.
    """

    def __init__(self, config: ServersConfig, slots: int, length: int, vocabulary: int) -> None:
        self.config, self.length, self.vocabulary = config, length, vocabulary
        limits = httpx.Limits(max_connections=slots + 1, max_keepalive_connections=slots + 1)
        self._client = httpx.Client(timeout=config.timeout, limits=limits)
        self._threads = ThreadPoolExecutor(slots, "sampler")
        self._waiting: dict[int, Draw] = {}
        self._running: dict[Future[Sampled], int] = {}

    def submit(self, draw: Draw) -> None:
        """Take a turn to be sampled.

        Raises:
            ConfigError: The prefix leaves no room, or the legal actions are given, which servers do not know.
        """
        if draw.legal is not None:
            raise ConfigError("servers do not sample among the legal actions", fix="leave out rollout.constrained")
        if len(draw.ids) >= self.length:
            raise ConfigError(f"a prefix of {len(draw.ids)} tokens does not fit", fix="raise max_length")
        self._waiting[draw.slot] = draw

    def advance(self, sampling: Sampling) -> list[tuple[int, Sampled]]:
        """Wait until at least one turn is done, and return those that are; nothing where none was submitted.

        Raises:
            ServiceError: A server stays away, or answers other than it was asked.
        """
        for slot, draw in self._waiting.items():
            self._running[self._threads.submit(self._ask, draw, sampling)] = slot
        self._waiting = {}
        if not self._running:
            return []
        done, _ = wait(self._running, return_when=FIRST_COMPLETED)
        return sorted(((self._running.pop(one), one.result()) for one in done), key=lambda found: found[0])

    def forget(self, slots: Sequence[int] | None = None) -> None:
        """Do nothing: servers mind their own caches."""

    def publish(self, folder: Path) -> None:
        """Tell every server where new weights lie.

        Raises:
            ServiceError: One does not take them.
        """
        place = str(folder.resolve())
        for url in self.config.urls:
            if self.config.update == "sglang":
                said = self._post(url, "/update_weights_from_disk", {"model_path": place})
                if not said.get("success", True):
                    raise ServiceError(f"{url} did not take the weights", why=str(said.get("message", ""))[:300])
            elif self.config.update == "vllm":
                self._post(url, "/pause?mode=keep", {})
                body = {"method": "reload_weights", "kwargs": {"weights_path": place}}
                self._post(url, "/collective_rpc", body)
                self._post(url, "/resume", {})

    def close(self) -> None:
        """Close the connections. May be called twice."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _ask(self, draw: Draw, sampling: Sampling) -> Sampled:
        url = self.config.urls[draw.slot % len(self.config.urls)]
        room = min(sampling.max_tokens, self.length - len(draw.ids))
        body = {
            "model": self.config.model,
            "prompt": [int(one) for one in draw.ids],
            "max_tokens": room,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "min_p": sampling.min_p,
            "seed": draw.seed % _SEEDS,
            "stop_token_ids": list(sampling.stop),
            "ignore_eos": True,
            "logprobs": 0,
            "return_token_ids": True,
            "skip_special_tokens": False,
        }
        ids, logps = self._read(url, self._post(url, "/v1/completions", body), len(draw.ids), room)
        stops = [place for place, one in enumerate(ids) if one in sampling.stop]
        if stops and stops[0] != len(ids) - 1:
            raise ServiceError(f"{url} went on behind the end of a turn", fix="see that it knows stop_token_ids")
        if not stops and len(ids) < room:
            raise ServiceError(f"{url} ended a turn without its last token", fix="see that it returns token_ids")
        forced = [] if stops or sampling.forced_end is None else [sampling.forced_end]
        return Sampled(ids, logps, forced)

    def _read(self, url: str, form: Mapping[str, Any], prompt: int, room: int) -> tuple[list[int], list[float]]:
        """Read ids and log-probabilities out of an answer.

        Raises:
            ServiceError: They are not there, do not go together, or are of other tokens than were asked for.
        """
        try:
            choice = form["choices"][0]
            ids, logps = choice["token_ids"], choice["logprobs"]["token_logprobs"]
        except (KeyError, IndexError, TypeError) as error:
            raise ServiceError(
                f"{url} returns no token ids and log-probabilities", fix="use vLLM 0.10.2 or later, or one like it"
            ) from error
        known = all(type(one) is int and 0 <= one < self.vocabulary for one in ids)
        worth = all(isinstance(one, int | float) and math.isfinite(one) and one <= 1e-4 for one in logps)
        if not known or not worth or len(ids) != len(logps) or not 0 < len(ids) <= room:
            raise ServiceError(f"{url} returns {len(ids)} tokens and {len(logps)} log-probabilities that make no sense")
        usage = form.get("usage") or {}
        if usage.get("prompt_tokens", prompt) != prompt:
            raise ServiceError(f"{url} read {usage['prompt_tokens']} tokens of a prompt of {prompt}")
        return [int(one) for one in ids], [min(float(one), 0.0) for one in logps]

    def _post(self, url: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        why, wait_seconds = "", self.config.backoff
        for attempt in range(self.config.retries + 1):
            if attempt:
                time.sleep(wait_seconds)
                wait_seconds *= 2
            try:
                answer = self._client.post(url.rstrip("/") + path, json=body)
            except httpx.TransportError as error:
                why = f"{type(error).__name__}: {error}"
                continue
            if answer.status_code in RETRIED:
                why = f"{answer.status_code}: {answer.text[:200]}"
                continue
            if answer.status_code >= 400:
                raise ServiceError(f"{url}{path} refuses", why=f"{answer.status_code}: {answer.text[:200]}")
            try:
                form = answer.json() if answer.content else {}
            except ValueError as error:
                raise ServiceError(f"{url}{path} answers no JSON", why=answer.text[:200]) from error
            return form if isinstance(form, dict) else {}
        raise ServiceError(f"{url}{path} stays away", why=why, fix="start it again, then resume the run")


def write_weights(model: Any, folder: Path, version: int) -> Path:
    """Write the weights of a version as a folder of Hugging Face's, drop those before the last, and return it."""
    place = folder / f"version-{version}"
    draft = folder / f".version-{version}"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    model.save_pretrained(draft)
    shutil.rmtree(place, ignore_errors=True)
    draft.rename(place)
    shutil.rmtree(folder / f"version-{version - 2}", ignore_errors=True)
    return place
