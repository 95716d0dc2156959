"""The READMEs of the two charts: installation, removal, and the values of the controller's chart."""

from collections.abc import Mapping
from typing import Any

import yaml

from provisioner.api.crd import VALUES, all_crds

from .markdown import block, code, page, table
from .values import CHARTS, reference

CONTROLLER, DEFINITIONS = "gpu-provisioner", "gpu-provisioner-crd"

INSTALL = """\
az acr build --registry REGISTRY --image gpu-provisioner:0.1.0 .
helm upgrade --install gpu-provisioner-crd charts/gpu-provisioner-crd --namespace gpu-provisioner --create-namespace
gpu-provisioner values --subscription-id SUB --resource-group RG --cluster-name AKS \\
  --image REGISTRY.azurecr.io/gpu-provisioner > values.yaml
helm upgrade --install gpu-provisioner charts/gpu-provisioner --namespace gpu-provisioner --values values.yaml
helm test gpu-provisioner --namespace gpu-provisioner"""

AZURE = """\
No image is published: `az acr build` builds it from a checkout of the repository and pushes it, and the chart requires
its repository (`controller.image.repository`). The cluster must be allowed to pull it (`az aks update --attach-acr`).

`gpu-provisioner values` reads the cluster and the managed identity (`--identity-name`), writes the values, and
prints on stderr the remaining steps in Azure: a federated credential for the service account, and the role in
`azure-role.json` for the identity, with the permissions that the controller uses. Without the cluster's OIDC
issuer, workload identity, the identity or the image it prints the command that makes it, and fails (exit code 3)."""

LEFT = """\
Uninstalling the chart keeps the CRDs, the NodeClaims and their machines, which continue to be billed. Remove the
machines while the controller is running, and the Lease after it:"""

REMOVAL = """\
gpu-provisioner uninstall --drain
helm uninstall gpu-provisioner --namespace gpu-provisioner
gpu-provisioner uninstall --drain --subscription-id SUB --resource-group RG --cluster-name AKS"""

REMOVED = """\
The first run deletes the NodeClaims that this program manages, waits until the controller has removed their machines,
and ends with exit code 3: only the Lease of the running controller remains. The second run deletes the Lease, and ends
with exit code 0 once complete lists of the API server and of Azure show nothing."""

KEPT = """\
The CRDs are a separate release, because Helm does not upgrade the content of a chart's `crds` folder. Each CRD has
the annotation `helm.sh/resource-policy: keep`: uninstalling the release keeps the CRDs and all NodeClaims.

The values below leave out CRDs that another release installs: node auto-provisioning of AKS installs NodeClaim and
NodePool, KAITO's chart NodeClaim and KaitoNodeClass. A CRD that is left out later stays in the cluster."""

TAKEN_OVER = """\
If the CRDs were installed from the `crds` folder of the chart of Azure/gpu-provisioner or KAITO, Helm does not adopt
them. Helm 4 removes its ownership metadata from them whenever it installs a chart with such a folder. In both cases,
add the metadata:"""

TAKE_OVER = """\
for crd in nodeclaims.karpenter.sh nodepools.karpenter.sh kaitonodeclasses.kaito.sh; do
  kubectl label crd $crd app.kubernetes.io/managed-by=Helm --overwrite
  kubectl annotate crd $crd meta.helm.sh/release-name=gpu-provisioner-crd --overwrite
  kubectl annotate crd $crd meta.helm.sh/release-namespace=gpu-provisioner --overwrite
done"""


def controller() -> str:
    """The README of the controller's chart."""
    chart = _chart(CONTROLLER)
    return page(
        CONTROLLER,
        "charts/gpu-provisioner and tools/reference/charts.py",
        chart["description"],
        _version(chart),
        "## Install\n\n" + block(INSTALL, "console"),
        AZURE,
        "`helm test` runs `gpu-provisioner check` with the service account and the settings of the controller.",
        "## Uninstall\n\n" + LEFT,
        block(REMOVAL, "console"),
        REMOVED,
        "## Values",
        *(part.replace("## ", "### ", 1) for part in reference()),
    )


def definitions() -> str:
    """The README of the chart of the CRDs."""
    chart = _chart(DEFINITIONS)
    rows = [
        [code(crd["metadata"]["name"]), ", ".join(v["name"] for v in crd["spec"]["versions"]), crd["spec"]["scope"]]
        for crd in _definitions()
    ]
    return page(
        DEFINITIONS,
        "charts/gpu-provisioner-crd and tools/reference/charts.py",
        chart["description"],
        _version(chart),
        table(["CRD", "Versions", "Scope"], rows),
        KEPT,
        table(
            ["Value", "Default", "CRD"], [[code(f"crds.{key}"), code("true"), code(name)] for key, name in _values()]
        ),
        TAKEN_OVER,
        block(TAKE_OVER, "console"),
    )


def _version(chart: Mapping[str, Any]) -> str:
    served = code(chart["kubeVersion"])
    return f"Version {chart['version']}, for Kubernetes {served}. Changes: [CHANGELOG.md](CHANGELOG.md)."


def _chart(name: str) -> Mapping[str, Any]:
    read: Mapping[str, Any] = yaml.safe_load((CHARTS / name / "Chart.yaml").read_text(encoding="utf-8"))
    return read


def _values() -> list[tuple[str, str]]:
    """The values that leave out a CRD, with its name."""
    return [(VALUES[file], crd["metadata"]["name"]) for file, crd in all_crds().items()]


def _definitions() -> list[Mapping[str, Any]]:
    folder = CHARTS / DEFINITIONS / "templates"
    return [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.yaml"))]
