"""The READMEs of the two charts: what a person does with them, and for the first one every key."""

from collections.abc import Mapping
from typing import Any

import yaml

from .markdown import block, code, page, table
from .values import CHARTS, reference

CONTROLLER, DEFINITIONS = "gpu-provisioner", "gpu-provisioner-crd"

INSTALL = """\
helm upgrade --install gpu-provisioner-crd charts/gpu-provisioner-crd --namespace gpu-provisioner --create-namespace
gpu-provisioner values --subscription-id SUB --resource-group RG --cluster-name AKS > values.yaml
helm upgrade --install gpu-provisioner charts/gpu-provisioner --namespace gpu-provisioner --values values.yaml
helm test gpu-provisioner --namespace gpu-provisioner"""

AZURE = """\
`gpu-provisioner values` reads the cluster and the managed identity (`--identity-name`), writes the values, and says on
stderr what is left to do in Azure: the cluster's OIDC issuer and workload identity, a federated credential for the
service account, and the role in `azure-role.json` for the identity: the four permissions that the controller uses."""

LEFT = """\
An uninstall leaves the definitions, the NodeClaims, and the machines that they stand for, which go on costing money. To
remove machines, delete their NodeClaims first, while the controller runs: `kubectl delete nodeclaims --all` waits until
Azure has let them go."""

KEPT = """\
A release of its own, because Helm never upgrades what stands in a chart's `crds` folder. Each definition bears
`helm.sh/resource-policy: keep`: an uninstall leaves it, and with it every NodeClaim in the cluster. It has no values.

In a cluster that has the definitions already, from the `crds` folder of Azure/gpu-provisioner's or KAITO's chart, Helm
does not touch what is not its own; and Helm 4 takes its marks off them again whenever it installs a chart with such a
folder. In either case, tell it to take them over:"""

TAKE_OVER = """\
for crd in nodeclaims.karpenter.sh kaitonodeclasses.kaito.sh; do
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
        "`helm test` runs the program's own `check` as the controller's Pods would.",
        "## Uninstall\n\n" + LEFT,
        "## Values",
        *(part.replace("## ", "### ", 1) for part in reference()),
    )


def definitions() -> str:
    """The README of the definitions' chart."""
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
        table(["Definition", "Versions", "Scope"], rows),
        KEPT,
        block(TAKE_OVER, "console"),
    )


def _version(chart: Mapping[str, Any]) -> str:
    served = code(chart["kubeVersion"])
    return f"Version {chart['version']}, for Kubernetes {served}. Changes: [CHANGELOG.md](CHANGELOG.md)."


def _chart(name: str) -> Mapping[str, Any]:
    read: Mapping[str, Any] = yaml.safe_load((CHARTS / name / "Chart.yaml").read_text(encoding="utf-8"))
    return read


def _definitions() -> list[Mapping[str, Any]]:
    folder = CHARTS / DEFINITIONS / "templates"
    return [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.yaml"))]
