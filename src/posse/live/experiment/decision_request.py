"""The request for a decision: one type for HTTP bodies, batches and experiments."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

MAX_BATCH_ITEMS = 1000
# an id that fits into a path; one chosen by the client makes the request repeatable
ID_PATTERN = r"^[A-Za-z0-9_-][A-Za-z0-9._~:@=+-]{0,199}$"
NewId = Annotated[str, Meta(pattern=ID_PATTERN + r"(?!\n)")]  # `$` accepts a last line break
Arm = Annotated[str, Meta(min_length=1, max_length=1000)]
Arms = Annotated[list[Arm], Meta(min_length=1, max_length=MAX_BATCH_ITEMS)]
# values are validated by the schema of the experiment, which names the field that is wrong
Context = Annotated[dict[str, Any], Meta(description="the visitor's features, by name")]


class DecisionRequest(Struct, forbid_unknown_fields=True):
    """A request for a decision; with an own id, repeated requests get the same answer.

    decision: its id, else one is drawn; allowed: the arms to choose from, else all.
    """

    decision: NewId | None = None
    allowed: Arms | None = None
    context: Context | None = None
