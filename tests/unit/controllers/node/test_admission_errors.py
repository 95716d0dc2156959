"""Which pods were rejected by the kubelet, why, and the Event about them, as a table."""

import msgspec
import pytest

from controllers.node.health.admission_errors import (
    REASON,
    AdmissionFailure,
    admission_errors,
    event_of,
    failure_of,
)
from provisioner.api.pod import Pod
from provisioner.metrics.definitions import own

UNREGISTERED = "Allocate failed due to cannot allocate unregistered device nvidia.com/gpu, which is unexpected"


def pod(name: str, phase: str = "Failed", reason: str = REASON, message: str = UNREGISTERED) -> Pod:
    body = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "status": {"phase": phase, "reason": reason, "message": message},
    }
    return msgspec.convert(body, Pod)


@pytest.mark.parametrize(
    ("message", "failure"),
    [
        (UNREGISTERED, AdmissionFailure.UNREGISTERED),
        (
            "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu,"
            " which is unexpected",
            AdmissionFailure.UNHEALTHY,
        ),
        (
            "Allocate failed due to previously allocated devices are no longer healthy; cannot allocate unhealthy"
            " devices nvidia.com/gpu, which is unexpected",
            AdmissionFailure.UNHEALTHY,
        ),
        (
            "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 1,"
            " Available: 0, which is unexpected",
            AdmissionFailure.UNAVAILABLE,
        ),
        (
            "Allocate failed due to rpc error: code = Unknown desc = request for 'nvidia.com/gpu: 2' too large:"
            " maximum request size for shared resources is 1, which is unexpected",
            AdmissionFailure.TOO_LARGE,
        ),
        ("Update plugin resources failed due to something else", AdmissionFailure.OTHER),
        ("", AdmissionFailure.OTHER),
    ],
)
def test_the_class_of_a_message(message: str, failure: AdmissionFailure) -> None:
    assert failure_of(message) is failure


def test_classes_are_the_values_of_the_metric() -> None:
    assert tuple(AdmissionFailure) == own.ADMISSION_REASONS


def test_other_failed_pods_were_not_rejected() -> None:
    pods = [pod("evicted", reason="Evicted"), pod("b"), pod("a"), pod("running", phase="Running")]
    assert [one.pod for one in admission_errors(pods)] == ["default/a", "default/b"]


def test_the_event_names_a_pod_the_cause_and_the_remedy() -> None:
    assert event_of(()) is None
    one, several = event_of(admission_errors([pod("a")])), event_of(admission_errors([pod("a"), pod("b"), pod("c")]))
    assert one is not None
    assert several is not None
    remedy = "controllers create other pods; delete those that are left"
    assert one.message == f"the kubelet rejected Pod default/a ({UNREGISTERED}); {remedy}"
    assert "Pod default/a and 2 more (" in several.message
