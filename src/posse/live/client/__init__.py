"""Clients of an agent, for applications: requests that are retried, and what the answers mean."""

from posse.live.client.asynchronous import AsyncClient as AsyncClient
from posse.live.client.sync import Client as Client
