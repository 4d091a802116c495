"""The metrics of a server's other workers: each writes its own down every second, and whoever is asked tells all.

A connection reaches any worker, so the one that is asked for metrics must know the others'. They share a folder that
their supervisor made; a file there is one worker's, by its number. What is told of the others is a second old at most.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path

import orjson

from agentenvs_servers.metering import Family, from_json, to_json

log = logging.getLogger("agentenvs.server")


class Siblings:
    """A worker among others.

    Args:
        number: The worker's, from 0.
        folder: What they share; None where it is alone.
    """

    def __init__(self, number: int = 0, folder: str | None = None) -> None:
        self.number = number
        self._folder = None if folder is None else Path(folder)
        self._failed = False

    def publish(self, families: Iterable[Family]) -> None:
        """Write metrics down for the others; where that cannot be, they are told without."""
        if self._folder is None:
            return
        file = self._folder / f"{self.number}.json"
        fresh = file.with_suffix(".tmp")
        try:
            fresh.write_bytes(orjson.dumps(to_json(families)))
            os.replace(fresh, file)
        except OSError as error:
            if not self._failed:
                log.warning("metrics cannot be shared with the other workers: %s", error.strerror)
            self._failed = True
        else:
            self._failed = False

    def others(self) -> dict[str, list[Family]]:
        """Return what the others wrote down last, by number."""
        found: dict[str, list[Family]] = {}
        for file in sorted(self._folder.glob("*.json")) if self._folder is not None else ():
            if file.stem == str(self.number):
                continue
            try:
                found[file.stem] = from_json(orjson.loads(file.read_bytes()))
            except (OSError, ValueError, TypeError):
                continue  # it is being made, or its worker is
        return found
