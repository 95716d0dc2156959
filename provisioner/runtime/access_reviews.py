"""What the API server says about the caller and about itself: who one is, what one may do, which version it has.

Bodies and answers of requests that name no object, and are never stored. No I/O.

Source: https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/self-subject-review-v1/,
https://kubernetes.io/docs/reference/kubernetes-api/authorization-resources/self-subject-access-review-v1/.
"""

from typing import Any, TypeVar

import msgspec

from provisioner.api.meta import Struct

from .kube_errors import UNREADABLE, unexpected
from .rights import Right
from .transport import Request

T = TypeVar("T")


class UserInfo(Struct, frozen=True, kw_only=True):
    username: str


class SelfSubjectReviewStatus(Struct, frozen=True, kw_only=True):
    user_info: UserInfo


class SelfSubjectReview(Struct, frozen=True, kw_only=True):
    """The API server's answer to "who am I"; an object without a name, which is never stored."""

    status: SelfSubjectReviewStatus


class SelfSubjectAccessReviewStatus(Struct, frozen=True, kw_only=True):
    allowed: bool


class SelfSubjectAccessReview(Struct, frozen=True, kw_only=True):
    """The answer to "may I"."""

    status: SelfSubjectAccessReviewStatus


class Version(Struct, frozen=True, kw_only=True):
    """`v1.34.4`, with a suffix for some distributions."""

    git_version: str


def subject_review() -> Request:
    """The question who one is. Servers before Kubernetes 1.28 do not know it: 404."""
    return _review("authentication.k8s.io/v1", "SelfSubjectReview", {})


def access_review(right: Right, *, namespace: str = "", name: str = "") -> Request:
    """The question whether one has a right; without a namespace in all of them."""
    resource, _, subresource = right.resource.partition("/")
    wanted = {
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "verb": right.verb,
        "namespace": namespace,
        "name": name,
    }
    attributes = {key: value for key, value in wanted.items() if value}
    return _review("authorization.k8s.io/v1", "SelfSubjectAccessReview", {"spec": {"resourceAttributes": attributes}})


def version() -> Request:
    """The question which version the API server has."""
    return Request("get", "GET", "/version", "version", "get version")


def _review(group_version: str, kind: str, more: dict[str, Any]) -> Request:
    plural = f"{kind.lower()}s"
    body = {"apiVersion": group_version, "kind": kind, **more}
    return Request("create", "POST", f"/apis/{group_version}/{plural}", plural, f"create {kind}", body=body)


def decode(body: bytes, kind: type[T], request: Request) -> T:
    """The answer as that type. Raises KubeError."""
    try:
        return msgspec.json.decode(body, type=kind)
    except UNREADABLE:
        raise unexpected(200, f"{request.what}: expected a {kind.__name__}", body=body) from None
