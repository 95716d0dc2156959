"""The configuration of a process, as settings map to it."""

import os
import socket

import pytest

from provisioner.operator.config import config_from
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
