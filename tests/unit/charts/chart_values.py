"""Renderings of the chart by Helm, and for each key of its values a value other than the default.

`leaves()` does not descend into values that the chart passes to Kubernetes unchanged, such as an affinity or labels.
`EVERYTHING` enables all objects that are disabled by default.
"""

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import helm_python
import yaml

Json = dict[str, Any]

CHART = Path(__file__).parents[3] / "charts" / "gpu-provisioner"
RELEASE = "gpu-provisioner"
NAMESPACE = "gpus"
IMAGE = "registry.example/ours"
NEEDED: Json = {
    "azure": {"subscriptionId": "subscription", "resourceGroup": "rg", "clusterName": "aks"},
    "controller": {"image": {"repository": IMAGE}},
}
EVERYTHING: Json = {
    **NEEDED,
    "admissionPolicy": {"enabled": True},
    "networkPolicy": {"enabled": True},
    "serviceMonitor": {"enabled": True},
    "podMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True},
    "dashboards": {"enabled": True},
    "nvsentinel": {"enabled": True},
    # Required if `create` is false.
    "serviceAccount": {"name": "ours"},
}
# Values that a change of the key requires.
COMPANIONS: dict[str, Json] = {
    "leaderElection.enabled": {"replicas": 1},
    "controller.extraVolumeMounts": {"extraVolumes": [{"name": "certificates", "secret": {"secretName": "c"}}]},
}


@cache
def defaults() -> Json:
    """values.yaml."""
    read: Json = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    return read


@cache
def schema() -> Json:
    """values.schema.json."""
    read: Json = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    return read


def schema_of(path: str) -> Json:
    """The schema of one key. Raises KeyError if there is none."""
    found = schema()
    for part in path.split("."):
        found = found["properties"][part]
    return found


def leaves(values: Json | None = None, above: str = "") -> list[str]:
    """The paths of all keys, for example `controller.image.tag`."""
    found = []
    for key, value in (defaults() if values is None else values).items():
        path = f"{above}{key}"
        closed = "properties" in schema_of(path)
        found += leaves(value, f"{path}.") if closed and isinstance(value, dict) else [path]
    return found


def branches(values: Json | None = None, above: str = "") -> list[str]:
    """The paths of all sections that must not be null."""
    found = []
    for key, value in (defaults() if values is None else values).items():
        path = f"{above}{key}"
        if "properties" in schema_of(path) and isinstance(value, dict) and "null" not in schema_of(path)["type"]:
            found += [path, *branches(value, f"{path}.")]
    return found


def other(path: str) -> Any:
    """A valid value for that key that differs from its default."""
    known, default = schema_of(path), value_at(defaults(), path)
    candidates = [*known.get("examples", ()), *known.get("enum", ())]
    if isinstance(default, bool):
        candidates.append(not default)
    if isinstance(default, int):
        candidates.append(default + 1)
    return next(candidate for candidate in candidates if candidate not in (default, None, ""))


def value_at(values: Json, path: str) -> Any:
    """The value of one key."""
    found: Any = values
    for part in path.split("."):
        found = found[part]
    return found


def with_value(values: Json, path: str, value: Any) -> Json:
    """The values with one key set."""
    changed = copy.deepcopy(values)
    *above, last = path.split(".")
    here = changed
    for part in above:
        here = here.setdefault(part, {})
    here[last] = value
    return changed


def before_and_after(path: str) -> tuple[Json, Json]:
    """Two values files with everything enabled: with the default for that key, and with another value."""
    after = with_value({**EVERYTHING, **COMPANIONS.get(path, {})}, path, other(path))
    before = {**EVERYTHING, **COMPANIONS.get(path, {})}
    return (with_value(before, path, value_at(defaults(), path)) if before == after else before), after


def render(values: Json, *, chart: Path = CHART, release: str = RELEASE) -> list[Json]:
    """The objects of a release. Raises HelmError if Helm rejects the values."""
    files = rendered_files(values, chart, release)
    manifests = [text for name, text in sorted(files.items()) if not name.endswith("NOTES.txt")]
    return [obj for text in manifests for obj in yaml.load_all(text, Loader=yaml.CSafeLoader) if obj]


def notes(values: Json) -> str:
    """The notes that Helm prints after an installation."""
    return next(text for name, text in rendered_files(values, CHART, RELEASE).items() if name.endswith("NOTES.txt"))


def rendered_files(values: Json, chart: Path, release: str) -> dict[str, str]:
    """The output of `helm template`, by file."""
    loaded_chart = loaded(chart)
    loaded_chart.validate_schema(values)
    files: dict[str, str] = loaded_chart.render(values, name=release, namespace=NAMESPACE)
    return files


@cache
def loaded(chart: Path) -> helm_python.Chart:
    """The loaded chart; loading takes ten times as long as rendering."""
    return helm_python.Chart.load(str(chart))


def named(objects: list[Json], kind: str, name: str = "") -> Json:
    """The only object of that kind, and of that name if one is given."""
    (found,) = [obj for obj in objects if obj["kind"] == kind and name in {"", obj["metadata"]["name"]}]
    return found


def pod_of(objects: list[Json]) -> Json:
    """The controller's Pod template."""
    template: Json = named(objects, "Deployment")["spec"]["template"]
    return template


def environment(objects: list[Json]) -> dict[str, Any]:
    """The environment variables of the controller: a value or a `valueFrom`."""
    (container,) = pod_of(objects)["spec"]["containers"]
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container["env"]}


# Keys of Azure/gpu-provisioner's chart that are accepted for compatibility; the schema has the reasons.
ACCEPTED = {
    "global", "namespace", "settings.azure.clusterName", "controller.outputPaths", "controller.errorOutputPaths",
    "controller.webhook.port", "controller.webhookMetrics.port",
}  # fmt: skip


def known_keys(of: Json, above: str = "") -> list[str]:
    """Every key that the schema allows, down to values that are passed to Kubernetes unchanged."""
    found = []
    for key, below in of["properties"].items():
        path = f"{above}{key}"
        found += known_keys(below, f"{path}.") if "properties" in below else [path]
    return found
