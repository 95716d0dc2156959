"""The real Helm renders our charts without a cluster: they lint, missing values are named, and the program reads their
settings.
"""

import re
from typing import Any

import helm_python
import pytest
import yaml

from provisioner import settings
from provisioner.api.aks_names import pool_of
from provisioner.api.meta import ObjectMeta
from provisioner.api.node import Node
from tests.cluster.charts import CHARTS, VALUES, rendered

Json = dict[str, Any]

CHART = CHARTS / "gpu-provisioner"
CRD_CHART = CHARTS / "gpu-provisioner-crd"
WARNING = 2
SUBSCRIPTION = "00000000-0000-0000-0000-00000000000a"
# What AKS's workload identity webhook injects into a pod with our label.
INJECTED = {
    "AZURE_CLIENT_ID": "00000000-0000-0000-0000-000000000001",
    "AZURE_TENANT_ID": "00000000-0000-0000-0000-000000000002",
    "AZURE_FEDERATED_TOKEN_FILE": "/var/run/secrets/azure/tokens/azure-identity-token",
    "AZURE_AUTHORITY_HOST": "https://login.microsoftonline.com/",
}


def template(name: str = "gpu-provisioner", namespace: str = "gpu-provisioner", **values: Any) -> dict[str, Json]:
    """The objects with the release's full name, by kind; one of each kind."""
    objects = everything(name, namespace, **values)
    full_name = name if "gpu-provisioner" in name else f"{name}-gpu-provisioner"
    named = [obj for obj in objects if obj["metadata"]["name"] == full_name]
    by_kind = {obj["kind"]: obj for obj in named}
    assert len(by_kind) == len(named)
    return by_kind


def everything(name: str = "gpu-provisioner", namespace: str = "gpu-provisioner", **values: Any) -> list[Json]:
    """All objects of a release."""
    return rendered("gpu-provisioner", namespace=namespace, values={**VALUES, **values}, release=name)


def container(objects: dict[str, Json]) -> Json:
    (found,) = objects["Deployment"]["spec"]["template"]["spec"]["containers"]
    return found


@pytest.mark.parametrize(("chart", "values"), [(CHART, VALUES), (CRD_CHART, {})], ids=["controller", "crds"])
def test_the_charts_lint(chart: Any, values: Json) -> None:
    """Strict linting reports no warning."""
    report = helm_python.lint(chart, values, strict=True, kube_version="v1.34.0")
    assert (report["errors"], [m for m in report["messages"] if m["severity"] >= WARNING]) == ([], [])


def test_the_objects_of_the_chart() -> None:
    """By default the chart renders the Pods and what they need, aggregated roles, policies and the `helm test` Pod."""
    objects = everything()
    assert sorted((obj["kind"], obj["metadata"]["name"]) for obj in objects) == [
        ("ClusterRole", "gpu-provisioner"),
        ("ClusterRole", "gpu-provisioner-claims-admin"),
        ("ClusterRole", "gpu-provisioner-claims-view"),
        ("ClusterRole", "gpu-provisioner-metrics-reader"),
        ("ClusterRoleBinding", "gpu-provisioner"),
        ("Deployment", "gpu-provisioner"),
        ("NetworkPolicy", "gpu-provisioner"),
        ("Pod", "gpu-provisioner-check"),
        ("PodDisruptionBudget", "gpu-provisioner"),
        ("Role", "gpu-provisioner"),
        ("Role", "gpu-provisioner-former-lease"),
        ("RoleBinding", "gpu-provisioner"),
        ("RoleBinding", "gpu-provisioner-former-lease"),
        ("Service", "gpu-provisioner"),
        ("ServiceAccount", "gpu-provisioner"),
        ("ValidatingAdmissionPolicy", "gpu-provisioner-finalizers"),
        ("ValidatingAdmissionPolicy", "gpu-provisioner-nodes"),
        ("ValidatingAdmissionPolicyBinding", "gpu-provisioner-finalizers"),
        ("ValidatingAdmissionPolicyBinding", "gpu-provisioner-nodes"),
    ]
    for obj in objects:
        assert obj["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm"
        shared = obj["kind"] in ("Role", "RoleBinding") and obj["metadata"]["name"] == "gpu-provisioner"
        assert obj["metadata"].get("namespace") == (
            None
            if obj["kind"].startswith(("Cluster", "Validating"))
            else "kube-system"
            if shared
            else "gpu-provisioner"
        )


def test_the_crd_chart_keeps_its_crds() -> None:
    """The CRDs have the annotation by which Helm keeps them at uninstall."""
    with helm_python.Chart.load(str(CRD_CHART)) as chart:
        crds = [yaml.safe_load(text) for text in chart.render({}).values()]
    assert sorted(crd["metadata"]["name"] for crd in crds) == [
        "agentpoolnodeclasses.gpu-provisioner.sh",
        "kaitonodeclasses.kaito.sh",
        "nodeclaims.karpenter.sh",
        "nodeoverlays.karpenter.sh",
        "nodepools.karpenter.sh",
    ]
    assert all(crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep" for crd in crds)


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("subscriptionId", "azure.subscriptionId is needed: the subscription of the AKS cluster"),
        ("resourceGroup", "azure.resourceGroup is needed: the resource group of the AKS cluster"),
        ("clusterName", "azure.clusterName is needed: the name of the AKS cluster"),
    ],
)
def test_a_missing_value_is_named(missing: str, message: str) -> None:
    """Without a required value, Helm fails with the value's name and meaning."""
    with pytest.raises(helm_python.HelmRenderError) as refused:
        template(azure={**VALUES["azure"], missing: ""})
    assert str(refused.value).endswith(message)


def test_an_existing_service_account_needs_its_name() -> None:
    """With create: false the roles are bound to the named account, and none is created."""
    with pytest.raises(helm_python.HelmRenderError, match=r"serviceAccount.name is needed when serviceAccount.create"):
        template(serviceAccount={"create": False})
    objects = template(serviceAccount={"create": False, "name": "theirs"})
    assert "ServiceAccount" not in objects
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        (subject,) = objects[kind]["subjects"]
        assert (subject["name"], subject["namespace"]) == ("theirs", "gpu-provisioner")
    assert objects["Deployment"]["spec"]["template"]["spec"]["serviceAccountName"] == "theirs"


def test_the_program_reads_what_the_chart_sets() -> None:
    """The container's environment is a complete configuration, with the ports, probes and Lease that the chart
    declares.
    """
    azure = {**VALUES["azure"], "subscriptionId": SUBSCRIPTION, "location": "westeurope"}
    objects = template(azure=azure, logLevel="debug")
    found = container(objects)
    environment = {variable["name"]: variable["value"] for variable in found["env"]}
    read = settings.load({}, {**environment, **INJECTED})
    assert (read.subscription_id, read.resource_group, read.cluster_name, read.location, read.log_level) == (
        SUBSCRIPTION,
        "rg",
        "aks",
        "westeurope",
        "debug",
    )
    assert read.warnings == ()
    ports = {port["name"]: port["containerPort"] for port in found["ports"]}
    assert ports == {"http-metrics": read.metrics_port, "http-health": read.health_probe_port}
    assert {found[probe]["httpGet"]["port"] for probe in ("livenessProbe", "readinessProbe")} == {"http-health"}
    lease = next(rule for rule in objects["Role"]["rules"] if "resourceNames" in rule)
    assert lease["resourceNames"] == [read.leader_election_name]


def test_values_reach_the_objects() -> None:
    """Image, replicas and the identity of the service account follow the values."""
    objects = template(
        controller={"image": {"repository": "example.com/ours", "tag": "1.2.3"}},
        replicas=3,
        workloadIdentity={"clientId": INJECTED["AZURE_CLIENT_ID"]},
    )
    assert container(objects)["image"] == "example.com/ours:1.2.3"
    assert objects["Deployment"]["spec"]["replicas"] == 3
    annotations = objects["ServiceAccount"]["metadata"]["annotations"]
    assert annotations["azure.workload.identity/client-id"] == INJECTED["AZURE_CLIENT_ID"]


def test_two_releases_share_no_name() -> None:
    """In one namespace or in two, each release has names, selectors and subjects of its own."""
    one, two = template("one", "here"), template("two", "here")
    for kind, obj in one.items():
        assert obj["metadata"]["name"] != two[kind]["metadata"]["name"]
    selectors = [objects["Deployment"]["spec"]["selector"]["matchLabels"] for objects in (one, two)]
    assert selectors[0] != selectors[1]


def test_the_policy_and_the_controller_agree_on_names_of_machines() -> None:
    """The policy takes for a machine of an agent pool exactly what the controller takes for one."""
    (policy,) = (
        one
        for one in rendered("gpu-provisioner", namespace="gpu-provisioner", values=VALUES)
        if one["kind"] == "ValidatingAdmissionPolicy" and one["metadata"]["name"].endswith("-nodes")
    )
    (pooled,) = (one["expression"] for one in policy["spec"]["variables"] if one["name"] == "pooled")
    found = re.search(r"matches\('([^']+)'\)", pooled)
    assert found is not None
    pattern = re.compile(found[1])
    machines = ("aks-ws1-12345678-vmss000000", "aks-ws1-12345678-vmss0000a1")
    others = ("aks-default-abcde", "plain", "aks-a-1-vmss00000", "aks-default-1-vmss00-abcde", "x-aks-a-1-vmss000000")
    for name in (*machines, *others):
        node = Node(metadata=ObjectMeta(name=name))
        assert bool(pattern.fullmatch(name)) == bool(pool_of(node)) == (name in machines), name


def test_releases_share_one_lease() -> None:
    """Whatever the name and the namespace of a release, its Lease is the one of the cluster."""
    leases = set()
    for release, namespace in (("gpu-provisioner", "gpu-provisioner"), ("gpu-provisioner-test", "test")):
        env = {e["name"]: e.get("value") for e in container(template(release, namespace))["env"]}
        leases.add((env["LEADER_ELECTION_NAMESPACE"], env["LEADER_ELECTION_NAME"]))
    assert leases == {("kube-system", "gpu-provisioner-leader-election")}


@pytest.mark.parametrize("kind", ["ServiceMonitor", "PodMonitor"])
def test_the_monitors_send_a_token_for_the_metrics_only(kind: str) -> None:
    """From a Secret of a service account that may get /metrics; the values can name another one, or none is needed."""
    name = kind[0].lower() + kind[1:]
    endpoints = "endpoints" if kind == "ServiceMonitor" else "podMetricsEndpoints"

    def authorization(monitor: Json, **values: Any) -> Any:
        objects = template(**{name: {"enabled": True, **monitor}, **values})
        (found,) = objects[kind]["spec"][endpoints]
        return found.get("authorization")

    reader = "gpu-provisioner-metrics-reader"
    assert authorization({}) == {"credentials": {"name": reader, "key": "token"}}
    monitored: dict[str, Any] = {name: {"enabled": True}}
    objects = {one["kind"]: one for one in everything(**monitored) if one["metadata"]["name"] == reader}
    assert objects["Secret"]["metadata"]["annotations"]["kubernetes.io/service-account.name"] == reader
    account = {"kind": "ServiceAccount", "name": reader, "namespace": "gpu-provisioner"}
    assert objects["ClusterRoleBinding"]["subjects"] == [account]
    own = {"credentials": {"name": "prometheus", "key": "secret"}}
    assert authorization({"endpointConfig": {"authorization": own}}) == own
    without: dict[str, Any] = {
        "controller": {**VALUES["controller"], "metrics": {"port": 8080, "authentication": False}},
    }
    assert authorization({}, **without) is None
    assert not [one for one in everything(**without) if one["metadata"]["name"] == reader]


def test_readers_of_the_metrics_are_bound() -> None:
    """Each of the values gets the ClusterRole; without authentication there is none."""
    readers = [{"name": "prometheus-k8s", "namespace": "monitoring"}]
    objects = [one for one in everything(metrics={"readers": readers}) if "metrics-reader" in one["metadata"]["name"]]
    (role,) = (one for one in objects if one["kind"] == "ClusterRole")
    (binding,) = (one for one in objects if one["kind"] == "ClusterRoleBinding")
    assert role["rules"] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    assert binding["subjects"] == [{"kind": "ServiceAccount", **readers[0]}]
    without: dict[str, Any] = {
        "controller": {**VALUES["controller"], "metrics": {"port": 8080, "authentication": False}},
    }
    assert not [one for one in everything(**without) if "metrics-reader" in one["metadata"]["name"]]
