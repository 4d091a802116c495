"""Environments on a server, played like those in process."""

from agentenvs.client.remote import AsyncRemoteEnv, RemoteEnv, connect, in_process
from agentenvs.client.session import Lease
from agentenvs.client.settings import ClientSettings

__all__ = ["AsyncRemoteEnv", "ClientSettings", "Lease", "RemoteEnv", "connect", "in_process"]
