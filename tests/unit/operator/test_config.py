"""The configuration of a process, as settings map to it."""

import os
import socket
from pathlib import Path

import pytest

from provisioner.operator.config import config_from
from provisioner.operator.holders import another_release
from provisioner.settings import load

REQUIRED = {"ARM_SUBSCRIPTION_ID": "s", "ARM_RESOURCE_GROUP": "rg", "AZURE_CLUSTER_NAME": "aks"}


def test_a_restarted_container_has_another_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """The PID in the image is always 1; a predecessor's last write may still arrive, so its Lease is not ours."""
    monkeypatch.setattr(os, "getpid", lambda: 1)
    monkeypatch.setattr(socket, "gethostname", lambda: "gpu-provisioner-5d8f7c9b6-x2x7k")
    settings = load({}, {**REQUIRED, "LEADER_ELECTION_NAMESPACE": "kube-system"}, acts=False)
    first, second = config_from(settings).identity, config_from(settings).identity
    assert first != second
    assert first.startswith("gpu-provisioner-5d8f7c9b6-x2x7k_")


LONG = "language-models-of-the-research-department-gpu-provisioner-test"


def replica(length: int, replica_set: str, random: str) -> str:
    """The identity of a Pod whose Deployment has a name of so many characters, as the API server generates it."""
    return f"{LONG[:length]}-{replica_set}-"[:58] + f"{random}.gpus_1"


@pytest.mark.parametrize(
    ("own", "leader", "another"),
    [
        ("gpu-provisioner-5d8f7c9b6-x2x7k.gpus_1", "gpu-provisioner-5d8f7c9b6-aaaaa.gpus_2", False),
        ("gpu-provisioner-5d8f7c9b6-x2x7k.gpus_1", "gpu-provisioner-77d9f6c4b-x2x7k.gpus_2", False),
        ("gpu-provisioner-check.gpus_1", "gpu-provisioner-77d9f6c4b-x2x7k.gpus_2", False),
        ("gpu-provisioner-5d8f7c9b6-x2x7k.gpus_1", "gpu-provisioner-5d8f7c9b6-x2x7k.test_2", True),
        ("gpu-provisioner-5d8f7c9b6-x2x7k.gpus_1", "test-gpu-provisioner-5d8f7c9b6-x2x7k.gpus_2", True),
        ("gpu-provisioner-5d8f7c9b6-x2x7k.gpus_1", "gpu-provisioner-5d8f7c9b6-aaaaa_2", False),
        ("laptop_1", "gpu-provisioner-5d8f7c9b6-aaaaa.gpus_2", False),
        ("gpu-provisioner-5d8f7c9b6-x2x7k.gpus_1", "", False),
        (replica(46, "5d8f7c9b6", "x2x7k"), replica(46, "77d9f6c4bd", "aaaaa"), False),
        *(
            (replica(length, "5d8f7c9b6", "x2x7k"), replica(length, "77d9f6c4b", "aaaaa"), False)
            for length in (47, 48, 52, 57, 58, 63)
        ),
        (replica(60, "5d8f7c9b6", "x2x7k"), f"{LONG[:60]}-check.gpus_2", False),
        (replica(60, "5d8f7c9b6", "x2x7k"), replica(60, "5d8f7c9b6", "aaaaa").replace("gpus", "test"), True),
        ("llm.gpu-provisioner-5d8f7c9b6-x2x7k.gpus_1", "llm.gpu-provisioner-77d9f6c4b-aaaaa.gpus_2", False),
        ("llm.gpu-provisioner-5d8f7c9b6-x2x7k.gpus_1", "llm.gpu-provisioner-5d8f7c9b6-x2x7k.test_2", True),
    ],
)
def test_the_holder_of_the_lease_shows_its_release(own: str, leader: str, *, another: bool) -> None:
    """Replicas and versions of one release are told from those of another by namespace and Deployment."""
    assert (another_release(own, leader) is not None) is another


def test_the_lease_is_where_every_release_looks(tmp_path: Path) -> None:
    """It is in kube-system whatever the namespace of the Pod, which is where earlier versions kept it."""
    (tmp_path / "namespace").write_text("gpus\n")
    config = config_from(load({}, REQUIRED, acts=False), service_account=tmp_path)
    assert (config.lease_namespace, config.former_lease_namespace) == ("kube-system", "gpus")
    assert ".gpus_" in config.identity
