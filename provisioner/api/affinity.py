"""Selectors of pods and Nodes in the fields of other objects.

Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/,
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/.
"""

from collections.abc import Mapping

import msgspec

from .meta import EMPTY, Struct
from .requirements import Requirement


class LabelSelector(Struct, frozen=True, kw_only=True):
    match_labels: Mapping[str, str] = EMPTY
    match_expressions: tuple[Requirement, ...] = ()


class NodeSelectorTerm(Struct, frozen=True, kw_only=True):
    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(Struct, frozen=True, kw_only=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredNodeTerm(Struct, frozen=True, kw_only=True):
    weight: int = 1
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Struct, frozen=True, kw_only=True):
    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredNodeTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Struct, frozen=True, kw_only=True):
    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class PreferredPodTerm(Struct, frozen=True, kw_only=True):
    weight: int = 1
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Struct, frozen=True, kw_only=True):
    """Pod affinity or pod anti-affinity."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[PreferredPodTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Struct, frozen=True, kw_only=True):
    node_affinity: NodeAffinity = NodeAffinity()
    pod_affinity: PodAffinity = PodAffinity()
    pod_anti_affinity: PodAffinity = PodAffinity()
