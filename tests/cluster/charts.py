"""Installs our charts on a control plane, rendered by the real Helm.

Tests run with what a user of the charts gets: the CRDs of one chart, the service account and its roles of the other.
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import helm_python
import yaml

if TYPE_CHECKING:
    from .controlplane import ControlPlane

Json = dict[str, Any]

CHARTS = Path(__file__).parents[2] / "charts"
RELEASE = "gpu-provisioner"
# Values that the chart requires; they have no effect on the roles.
IMAGE: Json = {"image": {"repository": "registry.example/gpu-provisioner"}}
VALUES: Json = {
    "azure": {"subscriptionId": "subscription", "resourceGroup": "rg", "clusterName": "aks"},
    "controller": IMAGE,
}
RIGHTS = (
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
COLLECTIONS = {
    "ValidatingAdmissionPolicy": f"{ADMISSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{ADMISSION}/validatingadmissionpolicybindings",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ESTABLISHED_SECONDS = 300.0


def rendered(chart: str, *, namespace: str, values: Json | None = None, release: str = RELEASE) -> list[Json]:
    """Every object that this chart renders, in Helm's order of files."""
    with helm_python.Chart.load(str(CHARTS / chart)) as loaded:
        files = loaded.render(values or {}, name=release, namespace=namespace)
    manifests = [text for name, text in sorted(files.items()) if not name.endswith("NOTES.txt")]
    return [obj for text in manifests for obj in yaml.safe_load_all(text) if obj]


async def install_rbac(cp: "ControlPlane", namespace: str, values: Json | None = None) -> None:
    """Install the namespace, the service account, its roles and the policies; existing ones are replaced."""
    status, answer = await cp.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    assert status in {201, 409}, answer
    objects = rendered("gpu-provisioner", namespace=namespace, values={**VALUES, **(values or {})})
    for obj in sorted((o for o in objects if o["kind"] in RIGHTS), key=lambda o: RIGHTS.index(o["kind"])):
        collection = COLLECTIONS[obj["kind"]].format(namespace=obj["metadata"].get("namespace", namespace))
        await cp.request("DELETE", f"{collection}/{obj['metadata']['name']}")
        await cp.demand("POST", collection, obj)


async def install_crds(cp: "ControlPlane") -> None:
    """Install the CRDs, and wait until their kinds are served."""
    crds = rendered("gpu-provisioner-crd", namespace="default")
    assert crds, "the chart gpu-provisioner-crd renders nothing"
    for crd in crds:
        status, answer = await cp.request("POST", CRDS, crd)
        assert status in {201, 409}, answer
    async with asyncio.timeout(ESTABLISHED_SECONDS):
        for crd in crds:
            spec = crd["spec"]
            path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
            while (await cp.request("GET", path))[0] != 200:  # noqa: ASYNC110 - another process establishes it
                await asyncio.sleep(0.1)
