"""Pods that the kubelet rejected with UnexpectedAdmissionError: the scheduler placed them by devices that are gone.

They support the diagnosis of missing GPUs, and never lead to a repair by themselves; a Node that rejects every pod gets
no more of them (`rejecting_node.py`).

Source: docs/references/kubernetes.md#pods-that-the-kubelet-rejects.
"""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

import msgspec

from controllers.model.steps import Event
from provisioner.api import reasons
from provisioner.api.pod import Pod
from provisioner.api.text import printable

REASON = "UnexpectedAdmissionError"
CHARACTERS = 200


class AdmissionFailure(StrEnum):
    """Why devices were not allocated. A metric label."""

    UNREGISTERED = "unregistered"  # the device plugin had not registered, for example after a restart of the kubelet
    UNHEALTHY = "unhealthy"  # the device plugin is gone, or found the devices unhealthy
    UNAVAILABLE = "unavailable"  # other pods use the devices
    TOO_LARGE = "too_large"  # more shares of a GPU than the device plugin gives to one pod
    OTHER = "other"


_TEXTS = (
    ("unregistered device", AdmissionFailure.UNREGISTERED),
    ("no healthy devices present", AdmissionFailure.UNHEALTHY),
    ("no longer healthy", AdmissionFailure.UNHEALTHY),
    ("requested number of devices unavailable", AdmissionFailure.UNAVAILABLE),
    ("too large", AdmissionFailure.TOO_LARGE),
)
_REMEDIES = {
    AdmissionFailure.TOO_LARGE: "request one share in each pod",
    AdmissionFailure.OTHER: "see kubectl describe pod",
}
REMEDY = "controllers create other pods; delete those that are left"


class AdmissionError(msgspec.Struct, frozen=True, kw_only=True):
    """One rejected pod, by its UID and `namespace/name`. `owner`: the UID of its controller, or its own."""

    uid: str
    pod: str
    owner: str
    created: datetime
    failure: AdmissionFailure
    text: str


def admission_errors(pods: Iterable[Pod]) -> tuple[AdmissionError, ...]:
    """Those of these pods that the kubelet rejected, by name."""
    found = [
        AdmissionError(
            uid=pod.metadata.uid,
            pod=pod.name,
            owner=next((one.uid for one in pod.metadata.owner_references if one.controller), pod.metadata.uid),
            created=pod.metadata.creation_timestamp,
            failure=failure_of(pod.status.message),
            text=printable(pod.status.message)[:CHARACTERS],
        )
        for pod in pods
        if is_rejected(pod)
    ]
    return tuple(sorted(found, key=lambda one: one.pod))


def is_rejected(pod: Pod) -> bool:
    """Whether the kubelet rejected the pod."""
    return pod.status.phase == "Failed" and pod.status.reason == REASON


def failure_of(message: str) -> AdmissionFailure:
    """The class of the kubelet's message."""
    return next((failure for text, failure in _TEXTS if text in message), AdmissionFailure.OTHER)


def event_of(errors: tuple[AdmissionError, ...]) -> Event | None:
    """The Event about the machine of these pods; None without one. It names one pod of them."""
    if not errors:
        return None
    first = errors[0]
    several = f" and {len(errors) - 1} more" if len(errors) > 1 else ""
    remedy = _REMEDIES.get(first.failure, REMEDY)
    message = f"the kubelet rejected Pod {first.pod}{several} ({first.text}); {remedy}"
    return Event(type="Warning", reason=reasons.UNEXPECTED_ADMISSION_ERROR, message=message)
