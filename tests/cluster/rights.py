"""The rights that our chart grants, and those that the controller used, from the chart and the API server's audit log.

Rights are (group, resource or resource/subresource, verb).
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

from .charts import VALUES, rendered

Json = dict[str, Any]


class Right(NamedTuple):
    """One right of an RBAC rule."""

    group: str
    resource: str
    verb: str


class Used(NamedTuple):
    """One request: the right that it needed, and the response."""

    right: Right
    code: int


def granted(namespace: str, values: Json | None = None) -> set[Right]:
    """Every right of the roles that the chart, with these values, binds to the controller's service account."""
    objects = rendered("gpu-provisioner", namespace=namespace, values={**VALUES, **(values or {})})
    bound = {(obj["roleRef"]["kind"], obj["roleRef"]["name"]) for obj in objects if obj["kind"].endswith("RoleBinding")}
    found: set[Right] = set()
    for role in objects:
        for rule in role.get("rules") or () if (role["kind"], role["metadata"]["name"]) in bound else ():
            found |= {
                Right(group, resource, verb)
                for group in rule["apiGroups"]
                for resource in rule["resources"]
                for verb in rule["verbs"]
            }
    return found


def used(audit_log: Path, user: str) -> list[Used]:
    """The requests of that user."""
    found = []
    for line in audit_log.read_text(encoding="utf-8").splitlines():
        event: Json = json.loads(line)
        where = event.get("objectRef")
        if event["user"].get("username") != user or where is None:
            continue
        resource = "/".join(part for part in (where.get("resource", ""), where.get("subresource", "")) if part)
        code = event.get("responseStatus", {}).get("code", 0)
        found.append(Used(Right(where.get("apiGroup", ""), resource, event["verb"]), code))
    return found
