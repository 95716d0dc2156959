"""Scheduling reads the same of a manifest, as `schedule` decodes it, and of the pod that the API server makes of it."""

from typing import Any

import pytest

from controllers.provisioning.podspecs import podspec
from provisioner.api.pod import Pod
from provisioner.cli.commands.manifests import converted

from .controlplane import ControlPlane

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio]

Json = dict[str, Any]
GPU = {"nvidia.com/gpu": "1"}


def container(name: str = "a", **resources: Any) -> Json:
    return {"name": name, "image": "i", "resources": resources}


PODS: dict[str, Json] = {
    "limits only": {"containers": [container(limits={"cpu": "2", **GPU})]},
    "numbers": {"containers": [container(requests={"cpu": 1.5, "memory": 1e9}, limits={"nvidia.com/gpu": 1})]},
    "huge": {"containers": [container(requests={"cpu": "9E", "memory": "1e300", "ephemeral-storage": "0.0000000001"})]},
    "sidecars": {
        "initContainers": [
            {**container("s", requests={"cpu": "2"}), "restartPolicy": "Always"},
            container("i", requests={"cpu": "7", "memory": "1Gi"}),
            {**container("t", limits={"cpu": "3"}), "restartPolicy": "Always"},
        ],
        "containers": [container(limits=GPU), container("b", requests={"cpu": "100m"})],
    },
    "limits of the pod": {
        "resources": {"limits": {"cpu": "40", "memory": "64Gi"}},
        "containers": [container(requests={"cpu": "1"}, limits=GPU), container("b", limits={"cpu": "2"})],
    },
    "requests of the pod": {
        "resources": {"requests": {"cpu": "8"}, "limits": {"cpu": "40", "memory": "64Gi"}},
        "containers": [container(requests={"cpu": "1"}, limits=GPU)],
    },
    "huge pages of the pod": {
        "resources": {"limits": {"hugepages-2Mi": "64Mi", "cpu": "4", "memory": "1Gi"}},
        "containers": [container(requests={"cpu": "1", "memory": "1Gi"})],
    },
    "huge pages of a container": {
        "resources": {"limits": {"cpu": "4", "memory": "1Gi"}},
        "containers": [container(requests={"cpu": "1", "memory": "1Gi"}, limits={"hugepages-2Mi": "32Mi"})],
    },
    "huge pages of both": {
        "resources": {"limits": {"cpu": "4", "memory": "1Gi", "hugepages-2Mi": "64Mi"}},
        "containers": [container(requests={"cpu": "1", "memory": "1Gi"}, limits={"hugepages-2Mi": "32Mi"})],
    },
    "host network": {
        "hostNetwork": True,
        "initContainers": [{**container("i", limits=GPU), "ports": [{"containerPort": 9000}]}],
        "containers": [
            {**container(limits=GPU), "ports": [{"containerPort": 8000}, {"containerPort": 53, "protocol": "UDP"}]}
        ],
    },
    "host ports": {
        "containers": [
            {
                **container(limits=GPU),
                "ports": [
                    {"containerPort": 80, "hostPort": 80, "hostIP": "127.0.0.1"},
                    {"containerPort": 80, "hostPort": 80, "hostIP": "::1"},
                    {"containerPort": 81},
                ],
            }
        ],
    },
    "matchLabelKeys": {
        "containers": [container(limits=GPU)],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "a"}},
                "matchLabelKeys": ["pod-template-hash", "none"],
                "nodeAffinityPolicy": "Ignore",
                "nodeTaintsPolicy": "Honor",
                "minDomains": 2,
            }
        ],
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
                        "matchLabelKeys": ["pod-template-hash"],
                        "mismatchLabelKeys": ["app"],
                        "namespaceSelector": {},
                    }
                ]
            },
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 3, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname"}}
                ]
            },
        },
    },
    "null": {
        "containers": [{**container(limits=GPU), "ports": None}],
        "affinity": {"podAffinity": None, "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": None}},
        "nodeSelector": None,
        "tolerations": None,
        "topologySpreadConstraints": None,
        "overhead": None,
        "priority": None,
        "resources": None,
    },
    "claims": {
        "resourceClaims": [{"name": "g", "resourceClaimTemplateName": "t"}],
        "containers": [container(claims=[{"name": "g"}])],
    },
    "numbers as bounds": {
        "containers": [container(limits=GPU)],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "a", "operator": "Gt", "values": ["9"]},
                                {"key": "b", "operator": "Lt", "values": ["3"]},
                            ]
                        }
                    ]
                }
            }
        },
    },
}


@pytest.mark.parametrize("name", PODS)
async def test_a_manifest_says_the_same_as_the_pod(cluster: ControlPlane, name: str) -> None:
    """Defaults of the API server change nothing that decides where a pod runs; it adds tolerations to each pod."""
    meta = {"name": "p", "creationTimestamp": None, "labels": {"app": "a", "pod-template-hash": "x"}}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": PODS[name], "status": {}}
    stored = await cluster.demand("POST", "/api/v1/namespaces/default/pods", body)
    written, read = (podspec(converted(one, Pod)).with_changes(tolerations=()) for one in (body, stored))
    assert written == read
