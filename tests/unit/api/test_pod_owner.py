"""Which pods count as pods of a DaemonSet or as static pods: all who ask get the same answer."""

import msgspec
import pytest

from controllers.actuator.kept import on_node
from controllers.node.termination.pod_digest import drained
from controllers.node.termination.pod_predicates import tier
from controllers.provisioning.pods import CachedPod, PodDigest
from controllers.provisioning.provisionable import why_not
from provisioner.api.meta import ObjectMeta, OwnerReference
from provisioner.api.pod import Pod
from tests.unit.controllers.provisioning.cases import given


@pytest.mark.parametrize(
    ("api_version", "kind", "daemon", "static"),
    [
        ("apps/v1", "DaemonSet", True, False),
        ("apps/v1beta2", "DaemonSet", True, False),
        ("example.com/v1", "DaemonSet", False, False),
        ("apps/v1", "ReplicaSet", False, False),
        ("v1", "Node", False, True),
        ("example.com/v1", "Node", False, False),
    ],
)
def test_every_user_of_a_pod_agrees(api_version: str, kind: str, daemon: bool, static: bool) -> None:
    """A drain, the cache of pods, the diagnosis of plugins and a snapshot from files."""
    owner = OwnerReference(api_version=api_version, kind=kind, name="o", uid="u", controller=True)
    meta = ObjectMeta(name="p", namespace="n", uid="p", owner_references=(owner,))
    assert (meta.daemon_set is not None, meta.mirrored_by is not None) == (daemon, static)

    assert tier(drained(Pod(metadata=meta))) == daemon
    assert (drained(Pod(metadata=meta)).metadata.mirrored_by is not None) == static

    cached = PodDigest()(Pod(metadata=meta))
    assert isinstance(cached, CachedPod)
    assert (cached.daemon, cached.daemon_set, cached.eviction.static) == (daemon, "u" * (kind == "DaemonSet"), static)
    assert ("DaemonSet" in why_not(Pod(metadata=meta))) == daemon

    assert [one.uid for one in on_node(Pod(metadata=meta)).metadata.owner_references] == ["u"] * daemon

    of_file = {"metadata": msgspec.to_builtins(meta)}
    found = given(nodes=[{"node": {"metadata": {"name": "n1"}}, "pods": [of_file]}])
    assert [one.daemon for one in found.nodes[0].pods] == [daemon]
