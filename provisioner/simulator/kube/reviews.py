"""Reviews of the caller and its permissions. They are answered and never stored.

The response is 201 with the request and its status, as on kube-apiserver; only POST is allowed. All callers are the
same user, with all permissions except `denied`.

Source: https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/self-subject-review-v1/,
https://kubernetes.io/docs/reference/kubernetes-api/authorization-resources/self-subject-access-review-v1/.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from provisioner.api.field_error import FieldError

from .errors import invalid, method_not_allowed
from .objects import Json

WHO = "selfsubjectreviews.authentication.k8s.io"
MAY = "selfsubjectaccessreviews.authorization.k8s.io"
RULES = "selfsubjectrulesreviews.authorization.k8s.io"
KINDS: Mapping[str, str] = {WHO: "SelfSubjectReview", MAY: "SelfSubjectAccessReview", RULES: "SelfSubjectRulesReview"}
_ALL = ["*"]
_NOT_BOTH = "cannot be specified in combination with resourceAttributes"
_ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


@dataclass(slots=True)
class Caller:
    """The user. `denied`: pairs of a verb and a resource (`pods/eviction`, `nodeclaims.karpenter.sh`)."""

    username: str = "simulator"
    groups: tuple[str, ...] = ("system:masters", "system:authenticated")
    denied: set[tuple[str, str]] = field(default_factory=set)

    def may(self, attributes: Mapping[str, Any]) -> bool:
        """Whether the action is allowed."""
        parts = (attributes.get("resource", ""), attributes.get("subresource", ""))
        resource = "/".join(part for part in parts if part)
        group = attributes.get("group", "")
        return (attributes.get("verb", ""), f"{resource}.{group}" if group else resource) not in self.denied


def review(method: str, resource: str, sent: Json, caller: Caller, now: str) -> Json:
    """The body of the response. Raises ApiError."""
    if method != "POST":
        raise method_not_allowed()
    group = resource.partition(".")[2]
    head: Json = {"kind": KINDS[resource], "apiVersion": f"{group}/v1", "metadata": {"creationTimestamp": now}}
    if resource == WHO:
        return {**head, "status": {"userInfo": {"username": caller.username, "groups": list(caller.groups)}}}
    spec = sent.get("spec") or {}
    if resource == RULES:
        rules: Json = {
            "resourceRules": [{"verbs": _ALL, "apiGroups": _ALL, "resources": _ALL}],
            "nonResourceRules": [{"verbs": _ALL, "nonResourceURLs": _ALL}],
            "incomplete": bool(caller.denied),
        }
        return {**head, "spec": spec, "status": rules}
    wanted, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    wrong = None
    if wanted is not None and other is not None:
        shown = json.dumps({"Path": other.get("path", ""), "Verb": other.get("verb", "")}, separators=(",", ":"))
        wrong = FieldError("spec.nonResourceAttributes", "FieldValueInvalid", f"Invalid value: {shown}: {_NOT_BOTH}")
    elif wanted is None and other is None:
        wrong = FieldError("spec.resourceAttributes", "FieldValueInvalid", f"Invalid value: null: {_ONE_OF}")
    if wrong is not None:
        # kube-apiserver does not name the kind either.
        raise invalid(group, "", "", [wrong])
    return {**head, "spec": spec, "status": {"allowed": wanted is None or caller.may(wanted)}}
