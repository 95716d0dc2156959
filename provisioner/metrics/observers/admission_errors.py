"""Pods that the kubelet rejected because their devices were gone, each counted once.

Source: docs/references/kubernetes.md#pods-that-the-kubelet-rejects.
"""

from collections.abc import Iterable

from controllers.node.health.admission_errors import AdmissionError
from provisioner.metrics.definitions import own
from provisioner.runtime.metrics import Metrics

# Rejected pods stay until their owner or the garbage collector of pods removes them (12,500 of a cluster by default).
REMEMBERED_MAX = 20_000


class AdmissionErrorCounter:
    """Counts rejected pods by the class of the kubelet's message."""

    def __init__(self, metrics: Metrics) -> None:
        self._errors = metrics.counter(own.GPU_ADMISSION_ERRORS)
        self._counted: dict[str, None] = {}
        for reason in own.ADMISSION_REASONS:
            self._errors.labels(reason)

    def seen(self, errors: Iterable[AdmissionError]) -> None:
        """These pods were found; those that were counted are left out."""
        for error in errors:
            if error.uid in self._counted:
                continue
            self._counted[error.uid] = None
            self._errors.labels(error.failure.value).inc()
            if len(self._counted) > REMEMBERED_MAX:
                del self._counted[next(iter(self._counted))]
