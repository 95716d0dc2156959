"""The real API server accepts what our chart renders, for every value of every key, and its Pods are restricted.

Nothing is created: each object is a server-side apply as a dry run, with strict field validation.
"""

import asyncio
from pathlib import Path

import pytest
import yaml

from tests.cluster.controlplane import ControlPlane
from tests.unit.charts.chart_values import NAMESPACE, NEEDED, Json, before_and_after, leaves, render, with_value
from tests.wire.kubectl import Kubectl

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio]

# Kinds that a cluster does not have by default.
FOREIGN = {"ServiceMonitor", "PodMonitor", "PrometheusRule"}
# A Pod on the host's network is not restricted; the user has to choose it.
UNRESTRICTED = "hostNetwork"
RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}


async def prepare(cp: ControlPlane) -> None:
    """Create the namespaces of the renderings, restricted, and the service accounts of their Pods."""
    async with asyncio.timeout(300):
        for namespace in (NAMESPACE, "leases"):
            await made(cp, "/api/v1/namespaces", {"name": namespace, "labels": RESTRICTED})
        for account in ("gpu-provisioner", "ours", "identity", "gpus", "our-gpus", "gpu-provisioner-gpus"):
            await made(cp, f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"name": account})


async def made(cp: ControlPlane, path: str, metadata: Json) -> None:
    """Create an object; one of that name from an earlier test may still be deleting."""
    while (await cp.request("POST", path, {"metadata": metadata}))[0] != 201:  # noqa: ASYNC110
        await asyncio.sleep(0.2)


async def applied(kubectl: Kubectl, home: Path, objects: list[Json]) -> tuple[int, str, str]:
    """kubectl's exit code and output for a dry run of all objects."""
    path = home / "objects.yaml"
    path.write_text(yaml.dump_all(objects, Dumper=yaml.CSafeDumper), encoding="utf-8")
    strict = ("--dry-run=server", "--validate=strict", "--force-conflicts")
    code, out, err = await kubectl.run("apply", "--server-side", *strict, "-f", str(path))
    return code, out, err


async def test_every_rendering_is_accepted_and_restricted(cluster: ControlPlane, tmp_path: Path) -> None:
    """Each distinct object is accepted without a warning; so are the Pods that the Deployments would create."""
    await prepare(cluster)
    kubectl = Kubectl(tmp_path, cluster.kubeconfig(tmp_path / "config"))
    distinct: dict[str, Json] = {}
    for values in (NEEDED, *(one for path in leaves() if path != UNRESTRICTED for one in before_and_after(path))):
        for obj in render(values):
            if obj["kind"] in FOREIGN:
                continue
            distinct[yaml.dump(obj, Dumper=yaml.CSafeDumper)] = obj
            if obj["kind"] == "Deployment":
                pod = {"apiVersion": "v1", "kind": "Pod", **obj["spec"]["template"]}
                pod["metadata"] = {**pod["metadata"], "name": "controller", "namespace": NAMESPACE}
                distinct[yaml.dump(pod, Dumper=yaml.CSafeDumper)] = pod
    code, out, err = await applied(kubectl, tmp_path, list(distinct.values()))
    assert (code, err) == (0, "")
    assert len(out.splitlines()) == len(distinct)


async def test_an_unrestricted_pod_causes_a_warning(cluster: ControlPlane, tmp_path: Path) -> None:
    """A Deployment whose container allows privilege escalation causes the server's warning."""
    await prepare(cluster)
    kubectl = Kubectl(tmp_path, cluster.kubeconfig(tmp_path / "config"))
    loose = with_value(NEEDED, "controller.securityContext", {"allowPrivilegeEscalation": True})
    code, _, err = await applied(kubectl, tmp_path, [obj for obj in render(loose) if obj["kind"] == "Deployment"])
    assert code == 0
    assert 'would violate PodSecurity "restricted:latest"' in err
