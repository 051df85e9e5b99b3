"""The requests of `posse status` to an agent, and the answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from posse.cli.common import UserError

HISTORY_SECONDS = 60.0  # a history has one point per minute: no need to fetch it more often


@dataclass(frozen=True)
class ExperimentStatus:
    """One experiment of an agent: settings and counts, controls, arms, verdict, audit, history.

    verdict, audit, history: None if the agent has none. context: the visitors that the arms are
    shown for, if visitors differ.
    """

    about: dict[str, Any]
    controls: dict[str, Any]
    arms: dict[str, dict[str, Any]]
    verdict: dict[str, Any] | None
    audit: dict[str, Any] | None
    history: dict[str, Any] | None
    context: dict[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the status for programs, without the history."""
        return {
            **self.about,
            "at": self.context,
            "arms": self.arms,
            "controls": self.controls,
            "verdict": self.verdict,
            "audit": self.audit,
        }


@dataclass(frozen=True)
class AgentStatus:
    """The answers of one agent; several: whether experiments need their names in titles."""

    url: str
    network: dict[str, Any]
    experiments: dict[str, ExperimentStatus]
    several: bool

    def as_dict(self) -> dict[str, Any]:
        """Return the status for programs."""
        experiments = {name: experiment.as_dict() for name, experiment in self.experiments.items()}
        return {"url": self.url, "experiments": experiments, "network": self.network}


class StatusQuery:
    """Fetches the status of an agent, of one of its experiments or of all.

    with_history: fetch the history, too; context: attributes of visitors, as text by name.
    """

    def __init__(
        self,
        url: str,
        experiment: str | None,
        options: dict[str, Any],
        clients: ExitStack,
        with_history: bool = False,
        context: Mapping[str, str] | None = None,
    ) -> None:
        self._url = url
        self._experiment = experiment
        self._options = options
        self._exit_stack = clients
        self._with_history = with_history
        self._context = context or {}
        self._clients = dict[str | None, Any]()
        self._histories: dict[str | None, tuple[float, dict[str, Any] | None]] = {}
        self.url = self._client_for(None).url

    def fetch_status(self) -> AgentStatus:
        """Fetch the present status; the history in it may be a minute old.

        A UserError if no agent answers.
        """
        try:
            network = dict(self._client_for(None).network())
            experiments = self._fetch_experiments()
        except ConnectionError as error:
            raise UserError(str(error)) from None
        except UserError:
            raise
        except ValueError as error:  # a refusal, for example without a token
            raise UserError(f"{self.url}: {str(error)[:200]}") from None
        except Exception as error:
            reason = str(error) or type(error).__name__
            raise UserError(f"no agent answers at {self.url}: {reason[:200]}") from None
        several = self._experiment is not None or len(experiments) > 1
        return AgentStatus(self.url, network, experiments, several)

    def _client_for(self, experiment: str | None) -> Any:
        """Return a client of an experiment; None for the only one."""
        from posse.live.client import Client

        if experiment not in self._clients:
            client = Client(self._url, experiment=experiment, **self._options)
            self._clients[experiment] = self._exit_stack.enter_context(client)
        return self._clients[experiment]

    def _fetch_experiments(self) -> dict[str, ExperimentStatus]:
        infos: dict[str, Any] = dict(self._client_for(None).experiments()["experiments"])
        if self._experiment is not None:
            if self._experiment not in infos:
                names = ", ".join(map(str, infos))
                raise UserError(
                    f"{self.url} has no experiment {self._experiment}: choose one of {names}"
                )
            return {
                self._experiment: self._fetch_experiment(self._experiment, infos[self._experiment])
            }
        if len(infos) > 1:
            return {name: self._fetch_experiment(name, about) for name, about in infos.items()}
        # A single experiment is also served without its name in the path; several need it.
        ((name, about),) = infos.items()
        return {name: self._fetch_experiment(None, about)}

    def _fetch_experiment(self, name: str | None, about: dict[str, Any]) -> ExperimentStatus:
        client = self._client_for(name)
        fields = (about.get("context") or {}).get("fields", {})
        context = {
            field: _parse_value(text, fields.get(field)) for field, text in self._context.items()
        }
        return ExperimentStatus(
            about,
            dict(client.controls()),
            client.arms(context) if context else client.arms(),
            _call_optional(client.verdict),
            _call_optional(client.audit),
            self._fetch_history(name) if self._with_history else None,
            context if about.get("context") else None,
        )

    def _fetch_history(self, name: str | None) -> dict[str, Any] | None:
        # The initial time is so early that the first call always fetches.
        fetched_at, history = self._histories.get(name, (-HISTORY_SECONDS, None))
        now = time.monotonic()
        if now - fetched_at >= HISTORY_SECONDS:
            fetched_at = now
            history = dict(self._client_for(name).history())
            self._histories[name] = fetched_at, history
        return history


def _parse_value(text: str, field: Any) -> Any:
    """Convert a value of the command line to the type of its field; the agent validates it."""
    table = field if isinstance(field, dict) else {}
    if "low" in table:
        try:
            return float(text)
        except ValueError:
            # The agent refuses it in a sentence that names the field.
            return text
    words = {"true": True, "false": False} if field == "flag" or "flag" in table else {}
    return words.get(text.lower(), text)


def _call_optional(ask: Callable[[], Any]) -> dict[str, Any] | None:
    """Return an answer that an experiment may lack, for example a verdict without `stop`."""
    from posse.live.store import Unknown

    try:
        return dict(ask())
    except Unknown:
        return None
