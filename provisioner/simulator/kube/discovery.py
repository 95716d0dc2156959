"""API discovery: `/api`, `/apis` and `/version`, in the aggregated and in the unaggregated form.

kubectl finds kinds, short names, categories and verbs here, in either form.

Source: https://kubernetes.io/docs/concepts/overview/kubernetes-api/#discovery-api.
"""

from collections.abc import Iterable

from .objects import Json
from .resources import Resource

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
VERSION: Json = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.0",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
_STATUS_VERBS = ["get", "patch", "update"]


def _groups(resources: Iterable[Resource]) -> dict[str, dict[str, list[Resource]]]:
    resources = list(resources)
    found: dict[str, dict[str, list[Resource]]] = {}
    for resource in resources:
        found.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
    # Custom groups come last, by name: the order of `kubectl get <category>`.
    custom = {resource.group for resource in resources if resource.schema is not None}
    return dict(sorted(found.items(), key=lambda item: item[0] if item[0] in custom else ""))


def aggregated(resources: Iterable[Resource], *, core: bool) -> Json:
    """The APIGroupDiscoveryList: of the core group, or of all others."""
    items = [
        {
            "metadata": {"name": group, "creationTimestamp": None},
            "versions": [
                {"version": version, "resources": [_discovered(r) for r in served], "freshness": "Current"}
                for version, served in versions.items()
            ],
        }
        for group, versions in _groups(resources).items()
        if (group == "") is core
    ]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _discovered(resource: Resource) -> Json:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    found: Json = {
        "resource": resource.plural,
        "responseKind": kind,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.one,
        "verbs": _VERBS,
    }
    if resource.short_names:
        found["shortNames"] = list(resource.short_names)
    if resource.categories:
        found["categories"] = list(resource.categories)
    below = [{"subresource": "status", "responseKind": kind, "verbs": _STATUS_VERBS}] if resource.has_status else []
    if resource.key == "pods":
        for subresource, group in (("binding", ""), ("eviction", "policy")):
            sent = {"group": group, "version": "v1", "kind": subresource.capitalize()}
            below.append({"subresource": subresource, "responseKind": sent, "verbs": ["create"]})
    if below:
        found["subresources"] = below
    return found


def api_versions() -> Json:
    """The response of `/api`."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def group_list(resources: Iterable[Resource]) -> Json:
    """The response of `/apis`."""
    groups = [_group(name, list(versions)) for name, versions in _groups(resources).items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(resources: Iterable[Resource], name: str) -> Json | None:
    """The response of `/apis/<group>`; None if there is none."""
    versions = _groups(resources).get(name)
    if not versions or not name:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, list(versions))}


def _group(name: str, versions: list[str]) -> Json:
    named = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": named, "preferredVersion": named[0]}


def resource_list(resources: Iterable[Resource], group_name: str, version: str) -> Json | None:
    """The response of `/api/v1` and `/apis/<group>/<version>`; None if there is none."""
    served = _groups(resources).get(group_name, {}).get(version)
    if not served:
        return None
    listed: list[Json] = []
    for resource in served:
        found = _discovered(resource)
        common = {"namespaced": resource.namespaced, "kind": resource.kind}
        names: Json = {k: found[k] for k in ("shortNames", "categories") if k in found}
        listed.append({"name": resource.plural, "singularName": resource.one, **common, "verbs": _VERBS, **names})
        listed.extend(
            {
                "name": f"{resource.plural}/{sub['subresource']}",
                "singularName": "",
                "namespaced": resource.namespaced,
                "kind": sub["responseKind"]["kind"],
                "verbs": sub["verbs"],
            }
            for sub in found.get("subresources", ())
        )
    group_version = f"{group_name}/{version}" if group_name else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": listed}
