"""Other people's frameworks: Posse's problems as theirs, and what they learn as algorithms here."""

from posse.interop import pettingzoo as pettingzoo
