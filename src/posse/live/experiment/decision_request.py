"""The request for a decision: one type for HTTP bodies, batches and experiments."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from posse.live.agent import MAX_VISITOR_LENGTH

MAX_BATCH_ITEMS = 1000
FLAG_PREFIX = "ofrep-"  # of ids of decisions that are flags of OpenFeature
FLAG_SECONDS = 3600.0  # how long such a decision is answered again, without a reward window
# an id that fits into a path; one chosen by the client makes the request repeatable
ID_PATTERN = r"^[A-Za-z0-9_-][A-Za-z0-9._~:@=+-]{0,199}$"
NewId = Annotated[str, Meta(pattern=ID_PATTERN + r"(?!\n)")]  # `$` accepts a last line break
Arm = Annotated[str, Meta(min_length=1, max_length=1000)]
Arms = Annotated[list[Arm], Meta(min_length=1, max_length=MAX_BATCH_ITEMS)]
# values are validated by the schema of the experiment, which names the field that is wrong
Context = Annotated[dict[str, Any], Meta(description="the visitor's features, by name")]
Visitor = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_VISITOR_LENGTH,
        description="the visitor's id, which gets the same arm at every agent",
    ),
]
Activate = Annotated[
    bool,
    Meta(description="false: no evidence until the decision is activated or has a reward"),
]


class DecisionRequest(Struct, forbid_unknown_fields=True):
    """A request for a decision; with an own id, repeated requests get the same answer.

    decision: its id, else one is drawn; allowed: the arms to choose from, else all; visitor: whom
    it is for, so that the same visitor gets the same arm at every agent; activate: false if it is
    not certain yet that the arm is shown.
    """

    decision: NewId | None = None
    allowed: Arms | None = None
    context: Context | None = None
    visitor: Visitor | None = None
    activate: Activate = True
