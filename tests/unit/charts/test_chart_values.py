"""The chart's values: every key works, a wrong one is refused in words, and the predecessor's keep their meaning.

Source: docs/references/kaito.md#chart-values; the values of Azure/gpu-provisioner's chart at each release from 0.2.0
on.
"""

import shutil
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml

from provisioner.settings import OPTIONS

from .chart_values import CHART, EVERYTHING, NEEDED, Json, before_and_after, defaults, environment, leaves, named, notes, pod_of, render, schema, schema_of, value_at, with_value

# Keys of the predecessor's chart that are accepted and not advertised, with the reason in the schema.
ACCEPTED = {
    "global", "namespace", "settings.azure.clusterName", "controller.outputPaths", "controller.errorOutputPaths",
    "controller.webhook.port", "controller.webhookMetrics.port",
}  # fmt: skip
# Settings that the chart has words of its own for; those of the last line are the webhook's or for extraEnv.
BY_OTHER_KEYS = {
    "subscription-id", "resource-group", "cluster-name", "location", "azure-environment", "deployment-mode",
    "tenant-id", "client-id", "metrics-port", "health-probe-port", "disable-leader-election", "leader-election-name",
    "leader-election-namespace", "log-level", "log-encoding",
    "federated-token-file", "authority-host", "arm-endpoint", "arm-audience", "https-proxy", "no-proxy",
    "ssl-cert-file", "kubeconfig",
}  # fmt: skip


@pytest.fixture(scope="session")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart with one rule and one dashboard more, so that their keys have something to work on."""
    made = tmp_path_factory.mktemp("chart") / "gpu-provisioner"
    shutil.copytree(CHART, made)
    rule = {"groups": [{"name": "sample", "rules": [{"alert": "Down", "expr": "up == 0"}]}]}
    for folder, text in (("rules/sample.yaml", yaml.safe_dump(rule)), ("dashboards/sample.json", '{"title": "x"}')):
        path = made / folder
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return made


def known_keys(of: Json, above: str = "") -> list[str]:
    """Every key that the schema allows, down to those that are handed to Kubernetes as they stand."""
    found = []
    for key, below in of["properties"].items():
        path = f"{above}{key}"
        found += known_keys(below, f"{path}.") if "properties" in below else [path]
    return found


def closed(of: Any, path: str = "") -> list[str]:
    """Objects of the schema that name their keys and yet allow others."""
    found = (
        [path] if isinstance(of, dict) and "properties" in of and of.get("additionalProperties") is not False else []
    )
    below = of.items() if isinstance(of, dict) else enumerate(of) if isinstance(of, list) else ()
    return found + [one for key, value in below if key != "examples" for one in closed(value, f"{path}/{key}")]


# --- every key works -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", leaves())
def test_each_key_changes_what_is_installed(chart: Path, path: str) -> None:
    """No key is dead: with another value, everything else switched on, the objects are others."""
    before, after = before_and_after(path)
    assert render(before, chart=chart) != render(after, chart=chart)


@pytest.mark.parametrize("path", [path for path in leaves() if "null" in schema_of(path).get("type", ())])
def test_null_is_as_good_as_empty(chart: Path, path: str) -> None:
    """In Helm null takes a default away; whatever may be null renders all the same, what is needed aside."""
    values = with_value(EVERYTHING, path, None)
    if path in {f"azure.{needed}" for needed in NEEDED["azure"]}:
        with pytest.raises(helm_python.HelmRenderError, match=f"{path} is needed"):
            render(values, chart=chart)
    else:
        assert render(values, chart=chart)


def test_values_and_schema_know_the_same_keys() -> None:
    """A key that is documented is allowed, and one that is allowed is documented, the accepted ones aside."""
    assert set(known_keys(schema())) - ACCEPTED == set(leaves())
    assert not (ACCEPTED & set(leaves()))


def test_no_object_of_the_schema_lets_a_misspelt_key_pass() -> None:
    """Wherever keys are named, others are refused."""
    assert closed(schema()) == []


def test_each_setting_of_the_program_can_be_set() -> None:
    """By a key of `settings` of its name, or by a key that says more; a new setting must be given one or the other."""
    own = {name: name.lower() for name in defaults()["settings"]}
    flags = {option.flag: option for option in OPTIONS}
    by_name = {flag.replace("-", ""): flag for flag in flags}
    assert {by_name[name] for name in own.values()} == set(flags) - BY_OTHER_KEYS


@pytest.mark.parametrize("path", [path for path in leaves() if path.startswith("settings.")])
def test_a_setting_arrives_under_its_variable(path: str) -> None:
    """What the program reads is what was written."""
    values = before_and_after(path)[1]
    flag = next(o for o in OPTIONS if o.flag.replace("-", "") == path.removeprefix("settings.").lower())
    written = value_at(values, path)
    assert environment(render(values))[flag.env[0]] == (str(written).lower() if written is True else str(written))


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"repliicas": 1}, "at '': additional properties 'repliicas' not allowed"),
        ({"azure": {"clusterNam": "aks"}}, "at '/azure': additional properties 'clusterNam' not allowed"),
        ({"replicas": "two"}, "at '/replicas': got string, want integer"),
        ({"settings": {"maxAgentPools": 0}}, "at '/settings/maxAgentPools': minimum: got 0, want 1"),
        ({"settings": {"launchDeadline": "soon"}}, "at '/settings/launchDeadline': 'soon' does not match pattern"),
        ({"logLevel": "loud"}, "at '/logLevel': value must be one of 'debug', 'info', 'warning', 'error'"),
        ({"controller": {"metrics": {"port": 80}}}, "at '/controller/metrics/port': minimum: got 80, want 1,024"),
        ({"workloadIdentity": {"tokenExpirationSeconds": 60}}, "minimum: got 60, want 3,600"),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else "",
)
def test_a_wrong_value_is_named(values: Json, words: str) -> None:
    """Where it stands, what it is, what would be right: before anything is installed."""
    with pytest.raises(helm_python.HelmValuesError) as refused:
        render({**NEEDED, **values})
    assert words in str(refused.value)


def test_two_without_a_lease_are_refused() -> None:
    """Two Pods without a lease would both act; one without it never overlaps with its successor."""
    without: Json = {**NEEDED, "leaderElection": {"enabled": False}}
    with pytest.raises(helm_python.HelmRenderError, match=r"replicas must be 1 when leaderElection\.enabled"):
        render(without)
    objects = render({**without, "replicas": 1})
    assert named(objects, "Deployment")["spec"]["strategy"] == {"type": "Recreate"}
    assert environment(objects)["DISABLE_LEADER_ELECTION"] == "true"
    assert not {"Role", "RoleBinding", "PodDisruptionBudget"} & {obj["kind"] for obj in objects}


def test_one_port_for_two_purposes_is_refused() -> None:
    """Kubernetes would say that of a list of ports, in words about merge keys."""
    values = with_value(NEEDED, "controller.metrics.port", defaults()["controller"]["healthProbe"]["port"])
    with pytest.raises(helm_python.HelmRenderError, match=r"controller\.healthProbe\.port must differ"):
        render(values)


# --- variables -------------------------------------------------------------------------------------------------------


def test_variables_add_up_and_none_is_lost() -> None:
    """One variable of one's own leaves the chart's in place, whichever way it is written; the last one counts."""
    plain = environment(render(NEEDED))
    token = {"secretKeyRef": {"name": "s", "key": "k"}}
    given = {
        "extraEnv": {"HTTPS_PROXY": "http://proxy.example:3128", "LOG_LEVEL": "error", "MAX": 1000000, "ON": True},
        "env": [{"name": "LOG_LEVEL", "value": "warning"}, {"name": "TOKEN", "valueFrom": token}],
    }
    found = environment(render({**NEEDED, "controller": given}))
    added = {"HTTPS_PROXY": "http://proxy.example:3128", "MAX": "1000000", "ON": "true", "TOKEN": token}
    assert found == {**plain, **added, "LOG_LEVEL": "warning"}


@pytest.mark.parametrize("text", ["on", "123", "1e3", "null", "no"])
def test_a_name_that_yaml_could_take_for_something_else_stays_a_name(text: str) -> None:
    """Release, namespace, objects, lease and tags are texts, whatever they look like."""
    values = {**NEEDED, "serviceAccount": {"name": text}, "leaderElection": {"name": text, "namespace": text}}
    values |= {"priorityClassName": text, "podLabels": {"l": text}, "controller": {"image": {"tag": text}}}
    objects = render({**values, "fullnameOverride": text}, release=text)
    lease = next(rule for rule in named(objects, "Role")["rules"] if "resourceNames" in rule)
    spec = pod_of(objects)["spec"]
    assert [
        named(objects, "Deployment")["metadata"]["name"],
        named(objects, "Role")["metadata"]["namespace"],
        pod_of(objects)["metadata"]["labels"]["app.kubernetes.io/instance"],
        pod_of(objects)["metadata"]["labels"]["l"],
        *lease["resourceNames"],
        spec["serviceAccountName"],
        spec["priorityClassName"],
        spec["containers"][0]["image"].rpartition(":")[2],
    ] == [text] * 8


def test_what_is_needed_may_come_from_a_secret() -> None:
    """With envFrom the chart cannot see which variables there are: the program says what is missing."""
    found = environment(render({"controller": {"envFrom": [{"secretRef": {"name": "azure"}}]}}))
    assert "ARM_SUBSCRIPTION_ID" not in found


# --- the predecessor's values ----------------------------------------------------------------------------------------

# What its script for an AKS cluster writes.
WRITTEN: Json = {
    "replicas": 1,
    "controller": {
        "env": [
            {"name": "ARM_SUBSCRIPTION_ID", "value": "sub-1"},
            {"name": "LOCATION", "value": "swedencentral"},
            {"name": "AZURE_CLUSTER_NAME", "value": "aks-1"},
            {"name": "AZURE_NODE_RESOURCE_GROUP", "value": "MC_rg-1_aks-1_swedencentral"},
            {"name": "ARM_RESOURCE_GROUP", "value": "rg-1"},
            {"name": "LEADER_ELECT", "value": "false"},
            {"name": "E2E_TEST_MODE", "value": "false"},
        ]
    },
    "workloadIdentity": {"clientId": "client-1", "tenantId": "tenant-1"},
}
# A copy of its whole values file, with the keys that had no effect there set to what shows here.
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
        "image": {"repository": "mcr.microsoft.com/aks/kaito/gpu-provisioner", "tag": "0.4.3", "digest": ""},
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


def test_the_values_that_the_predecessors_script_writes_are_all_that_is_needed() -> None:
    """Subscription, group, cluster and region from its variables, the identity from its keys."""
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


def test_a_copy_of_all_the_predecessors_values_is_taken_and_its_dead_keys_live() -> None:
    """Names, monitor, budget, volumes and log settings now do what they say, and so does the cluster's name."""
    objects = render(WHOLE)
    found = environment(objects)
    assert (found["LOG_LEVEL"], found["LOG_ENCODING"]) == ("debug", "console")
    assert named(objects, "ServiceAccount")["metadata"]["name"] == "theirs"
    assert named(objects, "ServiceAccount")["metadata"]["annotations"]["example.com/note"] == "y"
    assert pod_of(objects)["spec"]["serviceAccountName"] == "theirs"
    assert named(objects, "PodDisruptionBudget")["metadata"]["name"] == "budget"
    monitor = named(objects, "ServiceMonitor")
    assert (monitor["metadata"]["labels"]["release"], monitor["spec"]["endpoints"][0]["interval"]) == ("p", "15s")
    assert pod_of(objects)["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]
    cluster = {**NEEDED["azure"], "clusterName": ""}
    moved = {"azure": cluster, "settings": {"azure": {"clusterName": "theirs"}}}
    assert environment(render(moved))["AZURE_CLUSTER_NAME"] == "theirs"


# What earlier charts had besides (0.2.0; 0.3.0): the others, up to 0.4.3, have no key that the newest has not.
OLDER: dict[str, Json] = {
    "0.2.0": {**WHOLE, "namespace": "gpus"},
    "0.3.0": with_value(with_value(WHOLE, "controller.webhook.port", 8443), "controller.webhookMetrics.port", 8082),
}


@pytest.mark.parametrize("version", OLDER)
def test_the_values_of_its_older_charts_are_taken_too(version: str) -> None:
    """A namespace in the values, ports of a webhook: nothing here listens to them, and nothing is refused for them."""
    assert render(OLDER[version]) == render(WHOLE)


def test_a_namespace_in_the_values_that_is_another_is_told() -> None:
    """The release's own counts; where both are one nothing is said."""
    assert "WARNING: namespace is elsewhere and has no effect" in notes({**NEEDED, "namespace": "elsewhere"})
    assert "namespace names" not in notes({**NEEDED, "namespace": "gpus"})


def test_what_the_predecessor_hardens_less_stays_hardened() -> None:
    """Its fsGroup is taken over; its empty container context does not take ours away; 30 s remain for the end."""
    spec = pod_of(render(WHOLE))["spec"]
    assert spec["securityContext"] == {**defaults()["podSecurityContext"], "fsGroup": 1000}
    assert spec["containers"][0]["securityContext"] == defaults()["controller"]["securityContext"]
    assert spec["terminationGracePeriodSeconds"] == 30


def test_a_cluster_without_definitions_is_told() -> None:
    """Helm knows of none here, as in a new cluster; they are a chart of their own, and this is its command."""
    assert "helm upgrade --install gpu-provisioner-crd charts/gpu-provisioner-crd -n gpus\n" in notes(NEEDED)


def test_the_predecessors_image_is_not_run_in_our_name() -> None:
    """It is another program: ours is used instead, and Helm says so; any other image is the user's choice."""
    (container,) = pod_of(render(WHOLE))["spec"]["containers"]
    assert container["image"].startswith("ghcr.io/aks-gpu-provisioner/gpu-provisioner:")
    assert "WARNING: controller.image is the image of Azure/gpu-provisioner" in notes(WHOLE)
    own = with_value(NEEDED, "controller.image.repository", "registry.example/ours")
    assert pod_of(render(own))["spec"]["containers"][0]["image"].startswith("registry.example/ours:")


def test_terms_without_a_selector_get_the_pods_own() -> None:
    """As in the predecessor's chart: its anti-affinity names no pods, and would otherwise keep none apart."""
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
