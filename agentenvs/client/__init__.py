"""Environments on a server, played like those in process."""

from agentenvs.client.remote import AsyncRemoteEnv, RemoteEnv, connect, in_process
from agentenvs.client.session import Lease
from agentenvs.client.settings import ClientSettings
from agentenvs.client.ticket import TicketEnv

__all__ = ["AsyncRemoteEnv", "ClientSettings", "Lease", "RemoteEnv", "TicketEnv", "connect", "in_process"]
