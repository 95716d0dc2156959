"""What our own validation has against a claim: one value each, so that all of it can be told at once.

Plain data. The provider raises the first one, before anything is sent (`refuse`); who only looks at a claim
tells them all.
"""

from collections.abc import Iterable

import msgspec

from cloudprovider.errors import Rejected


class Objection(msgspec.Struct, frozen=True, kw_only=True):
    """`field` and `value` as the user wrote them; `problem` is a sentence with both in it; `reason` is CamelCase."""

    reason: str
    field: str
    value: str = ""
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem}; {self.remedy}"


def refuse(objections: Iterable[Objection]) -> None:
    """Raise the first objection as Rejected (final); none: the claim can be expressed."""
    for objection in objections:
        raise Rejected(objection.reason, str(objection), final=True)
