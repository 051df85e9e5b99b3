"""Clients of an agent, for applications: decisions and rewards over HTTP, with retries."""

from posse.live.client.asynchronous import AsyncClient as AsyncClient
from posse.live.client.sync import Client as Client
