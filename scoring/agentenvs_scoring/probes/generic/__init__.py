"""The reward hacks that can be tried in every environment, each as an executable player.

A hack knows what an attacker may know: the spec, the task, the solutions of this task and of others, and the words
with which those began. What it may earn follows from its kind:

``NOTHING``  does not do the task: no more than 0, in any episode
``GUESS``    may be lucky: no more than a share of the range in the mean of many tasks
``ONCE``     does the task and then more: no more than the task is worth

:func:`probe` makes a :class:`~agentenvs_scoring.probes.Probe` of one, for an environment. The hacks of a single world
stand beside this package, in the module of its slug.
"""

from __future__ import annotations

from agentenvs_scoring.probes.generic.answering import ANSWERING
from agentenvs_scoring.probes.generic.known import GUESS, NOTHING, ONCE, Hack, Kind, Known, Opening, Player
from agentenvs_scoring.probes.generic.playing import PLAYING
from agentenvs_scoring.probes.generic.saying import SAYING
from agentenvs_scoring.probes.generic.spelling import SPELLING

HACKS: tuple[Hack, ...] = (*PLAYING, *SAYING, *SPELLING, *ANSWERING)
"""All of them; a name is stable, and stands in reports."""

__all__ = ["GUESS", "HACKS", "NOTHING", "ONCE", "Hack", "Kind", "Known", "Opening", "Player"]
