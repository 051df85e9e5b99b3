"""Offers: between which arms a decision was made and with which probabilities, in few bytes.

A row of a decision refers to a list of all arms, kept once for each that there was, and has four
bytes a probability: seven digits, where that of the arm played is in the row in full.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from posse.randomness import FloatArray

ARMS = "arms"  # under which a store keeps the lists
MOST = 1000  # sets of arms that are remembered as text


class Offers:
    """The lists of all arms that an experiment has had."""

    def __init__(self, data: bytes | None = None) -> None:
        self._lists: list[list[str]] = [] if data is None else json.loads(data)
        self._texts: dict[tuple[str, ...], str] = {}
        self._now = -1

    def fresh(self, arms: Sequence[str]) -> bytes | None:
        """What is to be kept before any decision between these arms is; None if it is already."""
        names = list(arms)
        if names in self._lists:
            return None
        return json.dumps([*self._lists, names], ensure_ascii=False).encode()

    def use(self, arms: Sequence[str]) -> None:
        """All arms from now on."""
        names = list(arms)
        if names not in self._lists:
            self._lists.append(names)
        self._now = self._lists.index(names)
        self._texts.clear()

    @property
    def number(self) -> int:
        """Of the list of all arms now."""
        return self._now

    def arms(self, number: int) -> list[str]:
        """The arms of a list by its number."""
        return list(self._lists[number])

    def text(self, allowed: tuple[str, ...]) -> str:
        """The number of the list, followed by the places of those allowed if not all are."""
        found = self._texts.get(allowed)
        if found is None:
            arms = self._lists[self._now]
            places = [] if list(allowed) == arms else [arms.index(name) for name in allowed]
            if len(self._texts) >= MOST:
                self._texts.clear()
            found = self._texts[allowed] = " ".join(map(str, [self._now, *places]))
        return found

    def allowed(self, text: str) -> list[str]:
        """The arms of such a text."""
        number, *places = map(int, text.split())
        arms = self._lists[number]
        return [arms[place] for place in places] if places else list(arms)


def packed(probabilities: FloatArray) -> bytes:
    """Probabilities in four bytes each."""
    return probabilities.astype("<f4").tobytes()


def unpacked(data: bytes) -> list[float]:
    """Probabilities as they were packed, each with as few digits as tell it from others."""
    return [float(str(each)) for each in np.frombuffer(data, "<f4")]
