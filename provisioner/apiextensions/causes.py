"""One reason why the API server refuses an object."""

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cause:
    """A `metav1.StatusCause`. `field` is a path such as `spec.requirements[0].key`, `reason` a `metav1.CauseType`;
    `message` does not repeat the field: clients print both.
    """

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def is_within(field: str, parent: str) -> bool:
    """Whether the field is the parent or below it; every field is below ""."""
    return not parent or field == parent or field.startswith((f"{parent}.", f"{parent}["))
