"""Worlds in containers: started, found again and stopped, and what can be seen of an image from outside.

Docker's SDK is imported where an engine is asked, so that importing this room needs none.
"""

from agentenvs.deploy.containers import Running, down, find, logs, ps, up
from agentenvs.deploy.engine import connect
from agentenvs.deploy.images import IMAGE, Image, look
from agentenvs.deploy.plans import Plan

__all__ = ["IMAGE", "Image", "Plan", "Running", "connect", "down", "find", "logs", "look", "ps", "up"]
