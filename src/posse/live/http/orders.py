"""The routes for operators: pin, pause, resume, reload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from posse.live.experiment import Experiment
from posse.live.http.models import ArmRequest, Nothing, ReloadAnswer, ResumeRequest

NO_RELOAD = "this agent was not started from a file, and cannot read it anew"


def pin(experiment: Experiment, body: ArmRequest) -> Any:
    """Play this arm only."""
    experiment.pin(body.arm)
    return experiment.controlled()


def pause(experiment: Experiment, body: ArmRequest) -> Any:
    """Do not play this arm."""
    experiment.pause(body.arm)
    return experiment.controlled()


def resume(experiment: Experiment, body: ResumeRequest) -> Any:
    """Lift what holds for an arm, or for all."""
    experiment.resume(body.arm)
    return experiment.controlled()


def reload(again: Callable[[], Any] | None, _: Nothing) -> Any:
    """Read the settings anew; a bad file changes nothing."""
    if again is None:
        raise ValueError(NO_RELOAD)
    said = again()
    return ReloadAnswer(said if isinstance(said, str) else "")
