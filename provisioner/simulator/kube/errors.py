"""All error responses of the API server, with the status, reason and message of kube-apiserver.

`ApiError.body()` is a `metav1.Status`, which kubectl prints. Clients decide by `code`, `reason` and `details.causes`,
so these are exact, and so are the messages that programs are known to parse.

Source: https://github.com/kubernetes/apimachinery/tree/master/pkg/api/errors,
https://github.com/kubernetes/apimachinery/tree/master/pkg/util/validation/field.
"""

import json

from provisioner.api.field_error import FieldError

from .objects import Json


class ApiError(Exception):
    """An error response: HTTP status, machine-readable reason, message, and `metav1.StatusDetails`.

    Details are {} where kube-apiserver has empty ones, and None where it has none.
    """

    def __init__(self, status: int, reason: str, message: str, details: Json | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details

    def body(self) -> Json:
        """The `metav1.Status`."""
        body: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.status
        return body


def _details(qualified: str, name: str) -> Json:
    plural, _, group = qualified.partition(".")
    return {"name": name, "kind": plural} if not group else {"name": name, "group": group, "kind": plural}


def bad_request(message: str) -> ApiError:
    """400: an invalid request."""
    return ApiError(400, "BadRequest", message)


def not_found(qualified: str, name: str) -> ApiError:
    """`qualified` is plural and group: `nodes`, `nodeclaims.karpenter.sh`."""
    return ApiError(404, "NotFound", f'{qualified} "{name}" not found', _details(qualified, name))


def unserved() -> ApiError:
    """404 for an unknown kind or path. It names no object, so that clients do not conclude that one is absent."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(qualified: str, name: str, *, deleting: bool = False) -> ApiError:
    """409 on create."""
    words = f'{"object is being deleted: " if deleting else ""}{qualified} "{name}" already exists'
    return ApiError(409, "AlreadyExists", words, _details(qualified, name))


def conflict(qualified: str, name: str, why: str) -> ApiError:
    """409 on a write whose preconditions do not hold."""
    message = f'Operation cannot be fulfilled on {qualified} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(qualified, name))


def stale(qualified: str, name: str) -> ApiError:
    """409 on a write with an old resourceVersion."""
    return conflict(
        qualified, name, "the object has been modified; please apply your changes to the latest version and try again"
    )


def forbidden(qualified: str, name: str, why: str) -> ApiError:
    """403 because of the object, not of the user's permissions."""
    return ApiError(403, "Forbidden", f'{qualified} "{name}" is forbidden: {why}', _details(qualified, name))


def expired(message: str) -> ApiError:
    """410: the requested resourceVersion is no longer available."""
    return ApiError(410, "Expired", message)


def method_not_allowed() -> ApiError:
    """405."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, {})


def unsupported_media_type(message: str) -> ApiError:
    """415: an unsupported format of the body."""
    return ApiError(415, "UnsupportedMediaType", message)


def invalid(group: str, kind: str, name: str, causes: list[FieldError]) -> ApiError:
    """422: one cause prints on the message's line, several as a bracketed list, as `field.ErrorList` does."""
    unique = list(dict.fromkeys(causes))
    words = str(unique[0]) if len(unique) == 1 else "[" + ", ".join(map(str, unique)) + "]"
    qualified = f"{kind}.{group}" if group else kind
    details: Json = {"name": name} if name else {}
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    details["causes"] = [{"reason": c.reason, "message": c.message, "field": c.field} for c in unique]
    return ApiError(422, "Invalid", f'{qualified} "{name}" is invalid: {words}', details)


def invalid_option(kind: str, cause: FieldError) -> ApiError:
    """The 422 of a query parameter or a body of options; `kind` as in `DeleteOptions`."""
    return invalid("meta.k8s.io", kind, "", [cause])


def invalid_patch(patched: object, why: str) -> ApiError:
    """The 422 of a patch whose result cannot be decoded; it shows the result and names no object."""
    shown = json.dumps(patched, ensure_ascii=False, separators=(",", ":"))
    words = f"Invalid value: {json.dumps(shown, ensure_ascii=False)}: {why}"
    return invalid("", "", "", [FieldError("patch", "FieldValueInvalid", words)])


def too_many_requests(message: str, cause: FieldError) -> ApiError:
    """429: the request may succeed later."""
    return ApiError(429, "TooManyRequests", message, {"causes": [{"reason": cause.reason, "message": cause.message}]})
