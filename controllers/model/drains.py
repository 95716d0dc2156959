"""What is known of one Node's drain: its pods and volumes as last read, and the results of evictions.

Moments are loop times in seconds; methods take the current loop time.
"""

import math
from collections.abc import Mapping

import msgspec

from provisioner.api.pod import Pod
from provisioner.api.volume import VolumeAttachment

from .failures import RequestFailure


class Volumes(msgspec.Struct, frozen=True, kw_only=True):
    """VolumeAttachments as read at `read_at` (None: never), or why the last read failed.

    `kept`: the PersistentVolumes that pods which are not evicted used at that time.
    """

    attachments: tuple[VolumeAttachment, ...] = ()
    kept: frozenset[str] = frozenset()
    read_at: float | None = None
    read_failure: RequestFailure | None = None

    @property
    def known(self) -> bool:
        """Whether the attachments have been read."""
        return self.read_at is not None

    def age(self, now: float) -> float:
        """Seconds since the last read, inf if there was none."""
        return math.inf if self.read_at is None else now - self.read_at


class Drain(msgspec.Struct, frozen=True, kw_only=True):
    """One Node's pods as read at `read_at` (None: a new read is due); the drain began with its first read.

    By UID, `evicted`: when the eviction was accepted or the pod not found; `failures`: refused evictions and deletions.
    `had_evictable`: at least one pod of this drain could be evicted.
    """

    began_at: float = 0.0
    pods: tuple[Pod, ...] = ()
    read_at: float | None = None
    read_failure: RequestFailure | None = None
    had_evictable: bool = False
    evicted: Mapping[str, float] = {}
    failures: Mapping[str, RequestFailure] = {}
    volumes: Volumes = Volumes()

    @property
    def known(self) -> bool:
        """Whether the pods have been read."""
        return self.read_at is not None

    def age(self, now: float) -> float:
        """Seconds since the last read, inf if a new one is due."""
        return math.inf if self.read_at is None else now - self.read_at

    def lasts(self, now: float) -> float:
        """Seconds since the drain began."""
        return now - self.began_at


NOT_DRAINED = Drain()
