"""The error of validation of one field, whatever is validated: a claim, a manifest, a setting, a request.

It has the members of a `metav1.StatusCause`, plus the value and the remedy.

Source: https://github.com/kubernetes/apimachinery/tree/master/pkg/util/validation/field.
"""

import msgspec


class FieldError(msgspec.Struct, frozen=True):
    """`field` is a path such as `spec.requirements[0].key`, or the name of a setting as the user wrote it.

    `reason` is a `metav1.CauseType`, or the condition reason that the error becomes; `message` does not repeat the
    field; `value` is the invalid value as text, empty if it is absent or secret; `remedy` is an imperative.
    """

    field: str
    reason: str
    message: str
    value: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        """`field: message; remedy`, without the members that are empty."""
        text = f"{self.field}: {self.message}" if self.field else self.message
        return f"{text}; {self.remedy}" if self.remedy else text
