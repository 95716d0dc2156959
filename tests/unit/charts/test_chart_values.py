"""Every key of the chart's values has an effect, invalid values are rejected, and values of Azure/gpu-provisioner work.

Source: docs/references/kaito.md#chart-values; the values of Azure/gpu-provisioner's chart at each release from 0.2.0
on.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml

from provisioner.api.crd import VALUES
from provisioner.api.nvsentinel import NVSentinel
from provisioner.runtime.permissions import GKM_PERMISSIONS, nvsentinel_permissions
from provisioner.settings import OPTIONS, Option
from tests.cluster import rights

from .chart_values import (
    ACCEPTED,
    CHART,
    EVERYTHING,
    IMAGE,
    NEEDED,
    Json,
    before_and_after,
    branches,
    defaults,
    environment,
    known_keys,
    leaves,
    named,
    notes,
    pod_of,
    render,
    schema,
    schema_of,
    value_at,
    with_value,
)


@pytest.fixture(scope="session")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart with an additional rule and dashboard, so that their keys have an effect."""
    made = tmp_path_factory.mktemp("chart") / "gpu-provisioner"
    shutil.copytree(CHART, made)
    rule = {"groups": [{"name": "sample", "rules": [{"alert": "Down", "expr": "up == 0"}]}]}
    for folder, text in (("rules/sample.yaml", yaml.safe_dump(rule)), ("dashboards/sample.json", '{"title": "x"}')):
        path = made / folder
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return made


def closed(of: Any, path: str = "") -> list[str]:
    """Objects of the schema that list properties and allow additional ones."""
    found = (
        [path] if isinstance(of, dict) and "properties" in of and of.get("additionalProperties") is not False else []
    )
    below = of.items() if isinstance(of, dict) else enumerate(of) if isinstance(of, list) else ()
    return found + [one for key, value in below if key != "examples" for one in closed(value, f"{path}/{key}")]


# --- every key has an effect -----------------------------------------------------------------------------------------


@pytest.mark.matrix(quick=30)
@pytest.mark.parametrize("path", leaves())
def test_each_key_changes_the_rendered_objects(chart: Path, path: str) -> None:
    before, after = before_and_after(path)
    assert render(before, chart=chart) != render(after, chart=chart)


@pytest.mark.parametrize("path", [path for path in leaves() if "null" in schema_of(path).get("type", ())])
def test_a_null_value_renders_unless_it_is_required(chart: Path, path: str) -> None:
    """Helm removes the default of a key whose value is null."""
    values = with_value(EVERYTHING, path, None)
    if path in leaves(NEEDED):
        with pytest.raises(helm_python.HelmRenderError, match=f"{path} is needed"):
            render(values, chart=chart)
    else:
        assert render(values, chart=chart)


@pytest.mark.parametrize("path", branches())
def test_a_section_without_values_is_rejected_in_words(path: str) -> None:
    """An empty section of a values file is null, and Helm removes the key."""
    with pytest.raises(helm_python.HelmValuesError, match=f"missing property '{path.rpartition('.')[2]}'"):
        render(with_value(EVERYTHING, path, None))


@pytest.mark.parametrize("path", [path for path in leaves() if "null" not in schema_of(path).get("type", ("null",))])
def test_a_value_that_must_not_be_null_is_rejected_in_words(path: str) -> None:
    with pytest.raises(helm_python.HelmValuesError, match=f"missing property '{path.rpartition('.')[2]}'"):
        render(with_value(EVERYTHING, path, None))


def test_values_and_schema_have_the_same_keys() -> None:
    """The schema allows exactly the documented keys and the keys that are accepted for compatibility."""
    assert set(known_keys(schema())) - ACCEPTED == set(leaves())
    assert not (ACCEPTED & set(leaves()))


def test_every_object_of_the_schema_rejects_unknown_keys() -> None:
    assert closed(schema()) == []


def test_the_section_settings_has_the_settings_of_the_program() -> None:
    """A key for each that no other part of the values sets."""
    assert {f"settings.{name}" for name in defaults()["settings"]} == {
        option.chart for option in OPTIONS if option.chart.startswith("settings.")
    }


@pytest.mark.parametrize("option", [option for option in OPTIONS if option.chart], ids=lambda option: option.chart)
def test_a_setting_is_passed_in_its_environment_variable(option: Option) -> None:
    """As the program reads it; the webhook of workload identity passes the annotations of the service account."""
    before, after = (render(values) for values in before_and_after(option.chart))
    if option.chart.startswith("workloadIdentity."):
        assert environment(before) == environment(after)
        return
    passed = [environment(objects).get(option.env[0], "") for objects in (before, after)]
    assert passed[0] != passed[1]
    for text in filter(None, passed):
        option.kind.read(text)
    written = value_at(before_and_after(option.chart)[1], option.chart)
    if option.chart.startswith("settings."):
        is_json = isinstance(written, list | dict | bool)
        assert (json.loads(passed[1]) if is_json else passed[1]) == (written if is_json else str(written))


def accepted(known: Json) -> list[str]:
    """Texts that the schema of a value accepts: what it lists, and the ends of its range."""
    given = [
        *known.get("enum", ()),
        *known.get("examples", ()),
        *(known[end] for end in ("minimum", "maximum") if end in known),
    ]
    return [json.dumps(one) if isinstance(one, list | dict) else str(one) for one in given if one not in (None, "")]


@pytest.mark.parametrize("option", [option for option in OPTIONS if option.chart], ids=lambda option: option.chart)
def test_the_program_reads_what_the_schema_of_the_chart_accepts(option: Option) -> None:
    """Helm would render another value, and the controller would not start."""
    if "boolean" not in schema_of(option.chart)["type"]:
        for text in accepted(schema_of(option.chart)):
            option.kind.read(text)


# --- rejected values -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"repliicas": 1}, "at '': additional properties 'repliicas' not allowed"),
        ({"azure": {"clusterNam": "aks"}}, "at '/azure': additional properties 'clusterNam' not allowed"),
        ({"terminationGracePeriodSeconds": 29}, "at '/terminationGracePeriodSeconds': minimum: got 29, want 30"),
        ({"replicas": "two"}, "at '/replicas': got string, want integer"),
        ({"settings": {"maxAgentPools": 0}}, "at '/settings/maxAgentPools': minimum: got 0, want 1"),
        ({"settings": {"launchDeadline": "soon"}}, "at '/settings/launchDeadline': 'soon' does not match pattern"),
        ({"logLevel": "loud"}, "at '/logLevel': value must be one of 'debug', 'info', 'warning', 'error'"),
        ({"controller": {"metrics": {"port": 80}}}, "at '/controller/metrics/port': minimum: got 80, want 1,024"),
        ({"workloadIdentity": {"tokenExpirationSeconds": 60}}, "minimum: got 60, want 3,600"),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else "",
)
def test_an_invalid_value_is_rejected(values: Json, words: str) -> None:
    """The message has the path, the value and the constraint."""
    with pytest.raises(helm_python.HelmValuesError) as refused:
        render({**NEEDED, **values})
    assert words in str(refused.value)


@pytest.mark.parametrize("key", VALUES.values())
def test_the_chart_of_the_crds_leaves_out_each_of_them(key: str) -> None:
    """Another release may own that CRD."""
    chart = CHART.parent / "gpu-provisioner-crd"
    every, fewer = (
        {crd["metadata"]["name"] for crd in render(values, chart=chart)} for values in ({}, {"crds": {key: False}})
    )
    left_out = {name.replace("-", "") for name in every - fewer}
    assert len(every) == len(VALUES) == len(fewer) + 1
    assert [name.partition(".")[0] for name in left_out] == [key.lower()]


def test_without_node_pools_nothing_of_them_is_rendered() -> None:
    """The controller is told by its environment; without the value the default of the program applies."""
    assert "NODE_POOLS" not in environment(render(NEEDED))
    without = render({**NEEDED, "nodePools": {"enabled": False}})
    assert environment(without)["NODE_POOLS"] == "false"


def test_readiness_rules_are_passed_on_and_their_resources_can_be_read() -> None:
    """The rules are one JSON text; each resource named there or in rules of node classes can be listed and watched."""
    taint = {"key": "example.com/wait", "effect": "NoSchedule"}
    found = {"group": "gkm.io", "version": "v1alpha1", "resource": "gkmcachenodes", "jsonPath": "{.status.nodeName}"}
    pods = {"pod": {"namespace": "kube-system", "labelSelector": "app=agent"}}
    rules = [{"taint": taint, "until": until, "timeoutSeconds": 600} for until in ({"object": found}, pods)]
    resources = [{"group": "gkm.io", "resource": "clustergkmcachenodes"}, {"resource": "configmaps"}]
    values: Json = {"readinessRules": rules, "readiness": {"resources": resources}, "nodePools": {"enabled": False}}
    option = next(one for one in OPTIONS if one.flag == "readiness-rules")
    read = option.kind.read(environment(render({**NEEDED, **values}))["READINESS_RULES"])
    assert [(one.taint.key, one.timeout_seconds) for one in read] == [("example.com/wait", 600)] * 2
    without: Json = {"nodePools": {"enabled": False}}
    before, after = (rights.granted("gpu-provisioner", one) for one in (without, values))
    named = {("gkm.io", "gkmcachenodes"), ("gkm.io", "clustergkmcachenodes"), ("", "configmaps"), ("", "pods")}
    every = {(group, resource, verb) for group, resource in named for verb in ("list", "watch")}
    assert set(after) - set(before) == every - {("", "pods", "list")}


def test_the_cleanup_of_gkm_has_its_rights() -> None:
    """Without the value, nothing of GKM can be read or deleted."""
    before, after = (set(rights.granted("gpu-provisioner", {"gkm": {"cleanup": on}})) for on in (False, True))
    assert {(r.group, r.resource, r.verb) for r in GKM_PERMISSIONS} == after - before
    assert environment(render({**NEEDED, "gkm": {"cleanup": True}}))["GKM_CLEANUP"] == "true"


def test_nvsentinel_has_its_rights_and_settings() -> None:
    """Without the value, nothing of NVSentinel can be read; the names of the values reach the program."""
    values = {"enabled": True, "group": "nvsentinel.nvidia.com", "rebootConditionType": "Restarted"}
    expected = NVSentinel(group="nvsentinel.nvidia.com", reboot_condition_type="Restarted")
    before, after = (
        set(rights.granted("gpu-provisioner", {"nvsentinel": {**values, "enabled": on}})) for on in (False, True)
    )
    assert {(r.group, r.resource, r.verb) for r in nvsentinel_permissions(expected)} == after - before
    option = next(one for one in OPTIONS if one.flag == "nvsentinel")
    assert option.kind.read(environment(render({**NEEDED, "nvsentinel": values}))["NVSENTINEL"]) == expected
    assert "NVSENTINEL" not in environment(render(NEEDED))
    without = NVSentinel(reboot_resource="")
    left = set(rights.granted("gpu-provisioner", {"nvsentinel": {"enabled": True, "rebootResource": ""}}))
    assert {(r.group, r.resource, r.verb) for r in nvsentinel_permissions(without)} == left - before


def test_the_chart_of_the_crds_rejects_unknown_values() -> None:
    """`global` is set by a parent chart."""
    chart = CHART.parent / "gpu-provisioner-crd"
    assert render({"global": {"imageRegistry": "example.com"}}, chart=chart)
    with pytest.raises(helm_python.HelmValuesError, match="additional properties 'keep' not allowed"):
        render({"keep": True}, chart=chart)


def test_without_leader_election_only_one_replica_is_allowed() -> None:
    """The update strategy is Recreate, so that two Pods never run at the same time."""
    without: Json = {**NEEDED, "leaderElection": {"enabled": False}}
    with pytest.raises(helm_python.HelmRenderError, match=r"replicas must be 1 when leaderElection\.enabled"):
        render(without)
    objects = render({**without, "replicas": 1})
    assert named(objects, "Deployment")["spec"]["strategy"] == {"type": "Recreate"}
    assert environment(objects)["DISABLE_LEADER_ELECTION"] == "true"
    assert not {"Role", "RoleBinding", "PodDisruptionBudget"} & {obj["kind"] for obj in objects}


def test_the_ports_of_metrics_and_probes_must_differ() -> None:
    values = with_value(NEEDED, "controller.metrics.port", defaults()["controller"]["healthProbe"]["port"])
    with pytest.raises(helm_python.HelmRenderError, match=r"controller\.healthProbe\.port must differ"):
        render(values)


# --- environment variables -------------------------------------------------------------------------------------------


def test_environment_variables_are_merged() -> None:
    """`env` overrides `extraEnv`, which overrides the chart's variables; other variables are kept."""
    plain = environment(render(NEEDED))
    token = {"secretKeyRef": {"name": "s", "key": "k"}}
    given = {
        **NEEDED["controller"],
        "extraEnv": {"HTTPS_PROXY": "http://proxy.example:3128", "LOG_LEVEL": "error", "MAX": 1000000, "ON": True},
        "env": [{"name": "LOG_LEVEL", "value": "warning"}, {"name": "TOKEN", "valueFrom": token}],
    }
    found = environment(render({**NEEDED, "controller": given}))
    added = {"HTTPS_PROXY": "http://proxy.example:3128", "MAX": "1000000", "ON": "true", "TOKEN": token}
    assert found == {**plain, **added, "LOG_LEVEL": "warning"}


@pytest.mark.parametrize("text", ["on", "123", "1e3", "null", "no"])
def test_a_name_that_looks_like_another_yaml_type_stays_a_string(text: str) -> None:
    """The names of release, namespace, objects, Lease and tag."""
    values = {**NEEDED, "serviceAccount": {"name": text}, "leaderElection": {"name": text, "namespace": text}}
    values |= {
        "priorityClassName": text,
        "podLabels": {"l": text},
        "controller": {"image": {"repository": IMAGE, "tag": text}},
    }
    objects = render({**values, "fullnameOverride": text}, release=text)
    lease = next(rule for rule in named(objects, "Role", text)["rules"] if "resourceNames" in rule)
    spec = pod_of(objects)["spec"]
    assert [
        named(objects, "Deployment")["metadata"]["name"],
        named(objects, "Role", text)["metadata"]["namespace"],
        pod_of(objects)["metadata"]["labels"]["app.kubernetes.io/instance"],
        pod_of(objects)["metadata"]["labels"]["l"],
        *lease["resourceNames"],
        spec["serviceAccountName"],
        spec["priorityClassName"],
        spec["containers"][0]["image"].rpartition(":")[2],
    ] == [text] * 8


def test_envfrom_can_provide_the_required_variables() -> None:
    """The chart does not require its keys then, because it cannot read the Secret."""
    secret = {"envFrom": [{"secretRef": {"name": "azure"}}]}
    found = environment(render({"controller": {**NEEDED["controller"], **secret}}))
    assert "ARM_SUBSCRIPTION_ID" not in found


# --- values of Azure/gpu-provisioner ---------------------------------------------------------------------------------

# The values that its script for an AKS cluster writes, with the image of this program.
WRITTEN: Json = {
    "replicas": 1,
    "controller": {
        **NEEDED["controller"],
        "env": [
            {"name": "ARM_SUBSCRIPTION_ID", "value": "sub-1"},
            {"name": "LOCATION", "value": "swedencentral"},
            {"name": "AZURE_CLUSTER_NAME", "value": "aks-1"},
            {"name": "AZURE_NODE_RESOURCE_GROUP", "value": "MC_rg-1_aks-1_swedencentral"},
            {"name": "ARM_RESOURCE_GROUP", "value": "rg-1"},
            {"name": "LEADER_ELECT", "value": "false"},
            {"name": "E2E_TEST_MODE", "value": "false"},
        ],
    },
    "workloadIdentity": {"clientId": "client-1", "tenantId": "tenant-1"},
}
# A copy of its values file, with the image of this program; keys without effect there have values whose effect the
# tests can observe.
WHOLE: Json = {
    "nameOverride": "",
    "fullnameOverride": "",
    "additionalLabels": {"app": "gpu-provisioner"},
    "additionalAnnotations": {"example.com/note": "x"},
    "imagePullPolicy": "IfNotPresent",
    "imagePullSecrets": [],
    "service": {"annotations": {}},
    "serviceAccount": {"create": True, "name": "theirs", "annotations": {"example.com/note": "y"}},
    "additionalClusterRoleRules": [],
    "serviceMonitor": {"enabled": True, "additionalLabels": {"release": "p"}, "endpointConfig": {"interval": "15s"}},
    "replicas": 2,
    "revisionHistoryLimit": 10,
    "strategy": {"rollingUpdate": {"maxUnavailable": 1}},
    "podLabels": {},
    "podAnnotations": {},
    "podDisruptionBudget": {"name": "budget", "maxUnavailable": 1},
    "podSecurityContext": {"fsGroup": 1000},
    "priorityClassName": "system-cluster-critical",
    "terminationGracePeriodSeconds": None,
    "hostNetwork": False,
    "dnsPolicy": "Default",
    "dnsConfig": {},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "host"}]}},
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
    "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
    "extraVolumes": [{"name": "v", "emptyDir": {}}],
    "controller": {
        "image": {"repository": IMAGE, "tag": "0.1.0", "digest": ""},
        "securityContext": {},
        "env": [{"name": "ARM_SUBSCRIPTION_ID", "value": None}, *WRITTEN["controller"]["env"]],
        "envFrom": [],
        "resources": {"requests": {"cpu": "200m"}, "limits": {"cpu": "500m"}},
        "outputPaths": ["stdout"],
        "errorOutputPaths": ["stderr"],
        "logLevel": "debug",
        "logEncoding": "",
        "metrics": {"port": 8080},
        "healthProbe": {"port": 8081},
    },
    "logLevel": "info",
    "logEncoding": "console",
    "workloadIdentity": {"clientId": "client-1", "tenantId": "tenant-1"},
    "settings": {"azure": {"clusterName": None}},
    "deploymentMode": "self-hosted",
}


def test_the_values_of_the_script_of_azure_gpu_provisioner_are_sufficient() -> None:
    """Subscription, resource group, cluster and location are in its variables, the identity in its keys."""
    objects = render(WRITTEN)
    found = environment(objects)
    assert {name: found[name] for name in ("ARM_SUBSCRIPTION_ID", "ARM_RESOURCE_GROUP", "AZURE_CLUSTER_NAME")} == {
        "ARM_SUBSCRIPTION_ID": "sub-1",
        "ARM_RESOURCE_GROUP": "rg-1",
        "AZURE_CLUSTER_NAME": "aks-1",
    }
    assert (found["LOCATION"], named(objects, "Deployment")["spec"]["replicas"]) == ("swedencentral", 1)
    annotations = named(objects, "ServiceAccount")["metadata"]["annotations"]
    assert annotations["azure.workload.identity/client-id"] == "client-1"
    assert annotations["azure.workload.identity/tenant-id"] == "tenant-1"
    assert pod_of(objects)["metadata"]["labels"]["azure.workload.identity/use"] == "true"


def test_keys_without_effect_in_azure_gpu_provisioner_have_an_effect() -> None:
    """Log settings, service account, PodDisruptionBudget, monitor, volumes and the cluster's name."""
    objects = render(WHOLE)
    found = environment(objects)
    assert (found["LOG_LEVEL"], found["LOG_ENCODING"]) == ("debug", "console")
    assert named(objects, "ServiceAccount", "theirs")
    assert named(objects, "ServiceAccount", "theirs")["metadata"]["annotations"]["example.com/note"] == "y"
    assert pod_of(objects)["spec"]["serviceAccountName"] == "theirs"
    assert named(objects, "PodDisruptionBudget")["metadata"]["name"] == "budget"
    monitor = named(objects, "ServiceMonitor")
    assert (monitor["metadata"]["labels"]["release"], monitor["spec"]["endpoints"][0]["interval"]) == ("p", "15s")
    assert pod_of(objects)["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]
    cluster = {**NEEDED["azure"], "clusterName": ""}
    moved = {**NEEDED, "azure": cluster, "settings": {"azure": {"clusterName": "theirs"}}}
    assert environment(render(moved))["AZURE_CLUSTER_NAME"] == "theirs"


# Keys that only earlier charts have. The charts of the other releases up to 0.4.3 have no additional key.
OLDER: dict[str, Json] = {
    "0.2.0": {**WHOLE, "namespace": "gpus"},
    "0.3.0": with_value(with_value(WHOLE, "controller.webhook.port", 8443), "controller.webhookMetrics.port", 8082),
}


@pytest.mark.parametrize("version", OLDER)
def test_the_values_of_older_charts_are_accepted(version: str) -> None:
    """`namespace` and the ports of a webhook have no effect."""
    assert render(OLDER[version]) == render(WHOLE)


def test_the_notes_report_a_namespace_that_differs_from_the_release() -> None:
    assert "WARNING: namespace is elsewhere and has no effect" in notes({**NEEDED, "namespace": "elsewhere"})
    assert "namespace names" not in notes({**NEEDED, "namespace": "gpus"})


def test_values_of_azure_gpu_provisioner_do_not_weaken_the_security_context() -> None:
    """`fsGroup` is merged; an empty container context and a null grace period keep the defaults."""
    spec = pod_of(render(WHOLE))["spec"]
    assert spec["securityContext"] == {**defaults()["podSecurityContext"], "fsGroup": 1000}
    assert spec["containers"][0]["securityContext"] == defaults()["controller"]["securityContext"]
    assert spec["terminationGracePeriodSeconds"] == 30


def test_the_notes_report_missing_crds() -> None:
    """The notes contain the command that installs the CRD chart."""
    assert "helm upgrade --install gpu-provisioner-crd charts/gpu-provisioner-crd -n gpus\n" in notes(NEEDED)


@pytest.mark.parametrize(
    ("repository", "cause"),
    [
        ("", "controller.image.repository is needed: the chart has no default, because no image is published."),
        (None, "controller.image.repository is needed: the chart has no default, because no image is published."),
        ("mcr.microsoft.com/aks/kaito/gpu-provisioner", "Remove controller.image from your values."),
    ],
)
def test_an_image_of_this_program_is_required(repository: str | None, cause: str) -> None:
    """The error names the command that builds the image, with the tag that the chart uses."""
    with pytest.raises(helm_python.HelmRenderError) as refused:
        render(with_value(NEEDED, "controller.image.repository", repository))
    assert cause in str(refused.value)
    tag = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["appVersion"]
    assert f"az acr build --registry REGISTRY --image gpu-provisioner:{tag} ." in str(refused.value)
    (container,) = pod_of(render(NEEDED))["spec"]["containers"]
    assert container["image"] == f"{IMAGE}:{tag}"


def test_terms_without_a_label_selector_get_the_selector_of_the_pods() -> None:
    """The affinity terms and spread constraints of Azure/gpu-provisioner have no selector and would match no Pod."""
    spec = pod_of(render(WHOLE))["spec"]
    own = {"matchLabels": named(render(WHOLE), "Deployment")["spec"]["selector"]["matchLabels"]}
    (required,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (constraint,) = spec["topologySpreadConstraints"]
    assert (required["labelSelector"], constraint["labelSelector"]) == (own, own)
    chosen = {"matchLabels": {"app": "other"}}
    given = with_value(
        NEEDED, "topologySpreadConstraints", [{**WHOLE["topologySpreadConstraints"][0], "labelSelector": chosen}]
    )
    assert pod_of(render(given))["spec"]["topologySpreadConstraints"][0]["labelSelector"] == chosen
