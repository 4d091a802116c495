"""Worlds in containers: started, found again and stopped, and what can be seen of an image from outside.

Docker's SDK is imported where an engine is asked, so that importing this room needs none.
"""

from agentenvs.deploy.containers import Running, down, find, logs, ps, up
from agentenvs.deploy.engine import connect
from agentenvs.deploy.images import IMAGE, VERSION_LABEL, Image, exists, look, secret_files
from agentenvs.deploy.plans import PORT, Plan
from agentenvs.deploy.trial import Trial, trying

__all__ = [
    "IMAGE",
    "PORT",
    "VERSION_LABEL",
    "Image",
    "Plan",
    "Running",
    "Trial",
    "connect",
    "down",
    "exists",
    "find",
    "logs",
    "look",
    "ps",
    "secret_files",
    "trying",
    "up",
]
