"""What `posse status` asks of an agent, and the answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from posse.cli.common import Mistake

FRESH = 60.0  # seconds for which a history is: it has a point a minute


@dataclass(frozen=True)
class Experiment:
    """One experiment: its settings and counts, what is pinned, what is known of arms, and what was.

    verdict, audit, history: None where the agent has none. at: what is known of the visitors that
    the arms are of, where visitors differ.
    """

    about: dict[str, Any]
    controls: dict[str, Any]
    arms: dict[str, dict[str, Any]]
    verdict: dict[str, Any] | None
    audit: dict[str, Any] | None
    history: dict[str, Any] | None
    at: dict[str, Any] | None = None

    def plain(self) -> dict[str, Any]:
        """For machines, without the past."""
        return {
            **self.about,
            "at": self.at,
            "arms": self.arms,
            "controls": self.controls,
            "verdict": self.verdict,
            "audit": self.audit,
        }


@dataclass(frozen=True)
class Answers:
    """What one agent answered; several: whether its experiments must be told apart."""

    url: str
    network: dict[str, Any]
    experiments: dict[str, Experiment]
    several: bool

    def plain(self) -> dict[str, Any]:
        """For machines."""
        each = {name: experiment.plain() for name, experiment in self.experiments.items()}
        return {"url": self.url, "experiments": each, "network": self.network}


class Inquiry:
    """Asks an agent, of one of its experiments or of all.

    past: whether for the history, too; at: what is known of visitors, as text by name.
    """

    def __init__(
        self,
        url: str,
        experiment: str | None,
        options: dict[str, Any],
        open_: ExitStack,
        past: bool = False,
        at: Mapping[str, str] | None = None,
    ) -> None:
        self._url = url
        self._experiment = experiment
        self._options = options
        self._open = open_
        self._past = past
        self._at = at or {}
        self._clients = dict[str | None, Any]()
        self._histories: dict[str | None, tuple[float, dict[str, Any] | None]] = {}
        self.url = self._of(None).url

    def ask(self) -> Answers:
        """All that it knows now; a Mistake if nobody answers, or somebody else does."""
        try:
            network = dict(self._of(None).network())
            experiments = self._experiments()
        except ConnectionError as error:
            raise Mistake(str(error)) from None
        except Mistake:
            raise
        except ValueError as error:  # it answers, and refuses: such as without a token
            raise Mistake(f"{self.url}: {str(error)[:200]}") from None
        except Exception as error:
            reason = str(error) or type(error).__name__
            raise Mistake(f"no agent answers at {self.url}: {reason[:200]}") from None
        several = self._experiment is not None or len(experiments) > 1
        return Answers(self.url, network, experiments, several)

    def _of(self, experiment: str | None) -> Any:
        """A client of an experiment, or of the only one."""
        from posse.live.client import Client

        if experiment not in self._clients:
            client = Client(self._url, experiment=experiment, **self._options)
            self._clients[experiment] = self._open.enter_context(client)
        return self._clients[experiment]

    def _experiments(self) -> dict[str, Experiment]:
        there: dict[str, Any] = dict(self._of(None).experiments()["experiments"])
        if self._experiment is not None:
            if self._experiment not in there:
                known = ", ".join(map(str, there))
                raise Mistake(f"{self.url} has no experiment {self._experiment}, but {known}")
            return {self._experiment: self._ask_of(self._experiment, there[self._experiment])}
        if len(there) > 1:
            return {name: self._ask_of(name, about) for name, about in there.items()}
        ((name, about),) = there.items()
        return {name: self._ask_of(None, about)}

    def _ask_of(self, name: str | None, about: dict[str, Any]) -> Experiment:
        client = self._of(name)
        fields = (about.get("context") or {}).get("fields", {})
        at = {each: _value(text, fields.get(each)) for each, text in self._at.items()}
        return Experiment(
            about,
            dict(client.controls()),
            client.arms(at) if at else client.arms(),
            _if_any(client.verdict),
            _if_any(client.audit),
            self._history(name) if self._past else None,
            at if about.get("context") else None,
        )

    def _history(self, name: str | None) -> dict[str, Any] | None:
        asked, found = self._histories.get(name, (-FRESH, None))
        now = time.monotonic()
        if now - asked >= FRESH:
            asked = now
            found = dict(self._of(name).history())
            self._histories[name] = asked, found
        return found


def _value(text: str, field: Any) -> Any:
    """A value of the command line as the field of a schema needs it; the agent checks it."""
    table = field if isinstance(field, dict) else {}
    if "low" in table:
        try:
            return float(text)
        except ValueError:
            return text
    words = {"true": True, "false": False} if field == "flag" or "flag" in table else {}
    return words.get(text.lower(), text)


def _if_any(ask: Callable[[], Any]) -> dict[str, Any] | None:
    """An answer that an experiment need not have, such as a verdict where there is no `stop`."""
    from posse.live.store import Unknown

    try:
        return dict(ask())
    except Unknown:
        return None
