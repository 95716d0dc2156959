"""Reviews of users and permissions, and the server version: requests that create no object. No I/O.

Source: https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/self-subject-review-v1/,
https://kubernetes.io/docs/reference/kubernetes-api/authorization-resources/self-subject-access-review-v1/,
https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-review-v1/.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from provisioner.api.meta import Struct

from .kube_errors import UNREADABLE, unexpected
from .permissions import Permission
from .transport import Request

T = TypeVar("T")


class UserInfo(Struct, frozen=True, kw_only=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}


class SelfSubjectReviewStatus(Struct, frozen=True, kw_only=True):
    user_info: UserInfo


class SelfSubjectReview(Struct, frozen=True, kw_only=True):
    """The user as whom the API server authenticated the request."""

    status: SelfSubjectReviewStatus


class TokenReviewStatus(Struct, frozen=True, kw_only=True):
    authenticated: bool = False
    user: UserInfo = UserInfo()


class TokenReview(Struct, frozen=True, kw_only=True):
    """Whose token it is."""

    status: TokenReviewStatus


class SelfSubjectAccessReviewStatus(Struct, frozen=True, kw_only=True):
    allowed: bool


class SelfSubjectAccessReview(Struct, frozen=True, kw_only=True):
    """Whether RBAC, or another authorizer, allows the action; a SubjectAccessReview has the same fields."""

    status: SelfSubjectAccessReviewStatus


class Version(Struct, frozen=True, kw_only=True):
    """`v1.34.4`; some distributions add a suffix."""

    git_version: str


def subject_review() -> Request:
    """A SelfSubjectReview. Kubernetes before 1.28 answers 404."""
    return _review("authentication.k8s.io/v1", "SelfSubjectReview", {})


def access_review(permission: Permission, *, namespace: str = "", name: str = "") -> Request:
    """A SelfSubjectAccessReview of one permission; an empty namespace means all namespaces."""
    resource, _, subresource = permission.resource.partition("/")
    attributes = {
        "group": permission.group,
        "resource": resource,
        "subresource": subresource,
        "verb": permission.verb,
        "namespace": namespace,
        "name": name,
    }
    attributes = {key: value for key, value in attributes.items() if value}
    return _review("authorization.k8s.io/v1", "SelfSubjectAccessReview", {"spec": {"resourceAttributes": attributes}})


def token_review(token: str) -> Request:
    """A TokenReview of a token that a client presented. The token is in the body only."""
    return _review("authentication.k8s.io/v1", "TokenReview", {"spec": {"token": token}})


def path_review(user: UserInfo, path: str) -> Request:
    """A SubjectAccessReview: may this user `get` this path of a server beside the API server?"""
    spec: dict[str, Any] = {
        "nonResourceAttributes": {"path": path, "verb": "get"},
        "user": user.username,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {name: list(values) for name, values in user.extra.items()},
    }
    return _review("authorization.k8s.io/v1", "SubjectAccessReview", {"spec": spec})


def version() -> Request:
    """A request for `/version`."""
    return Request("get", "GET", "/version", "version", "get version")


def _review(group_version: str, kind: str, fields: dict[str, Any]) -> Request:
    plural = f"{kind.lower()}s"
    body = {"apiVersion": group_version, "kind": kind, **fields}
    return Request("create", "POST", f"/apis/{group_version}/{plural}", plural, f"create {kind}", body=body)


def decode(body: bytes, kind: type[T], request: Request) -> T:
    """The response body as that type. Raises KubeError."""
    try:
        return msgspec.json.decode(body, type=kind)
    except UNREADABLE:
        raise unexpected(200, f"{request.what}: expected a {kind.__name__}", body=body) from None
