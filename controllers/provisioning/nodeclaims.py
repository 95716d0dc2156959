"""The NodeClaim that is created for a planned machine.

Its name is the name of its NodePool and the next number. A process that has not seen the last NodeClaim requests the
number of that one, and the API server refuses it: each NodeClaim is created with knowledge of all earlier ones.

Source: docs/references/karpenter.md#nodeclaim-api, docs/references/rules.md#no-machine-is-bought-twice.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from controllers.nodeclass import hash as node_class_hash
from controllers.nodepool.hash import hash_annotations
from provisioner.api import labels
from provisioner.api.meta import EMPTY
from provisioner.api.nodeclass import AgentPoolNodeClass
from provisioner.api.nodepool import NodePool
from provisioner.api.requirements import Requirement, Requirements, normalise_key
from provisioner.api.restricted_labels import is_copied

from .offered import is_requested
from .solver.model import NewMachine
from .solver.reasons import quantities

# They only decide which daemon pods count; a NodeClaim does not require them.
OF_NODE = frozenset({labels.REGISTERED, labels.INITIALIZED})
MIN_VALUES_RELAXED = "karpenter.sh/nodeclaim-min-values-relaxed"
# The name of a NodeClaim is the value of a label, of at most 63 characters.
PREFIX_LENGTH = 50
NUMBER_DIGITS = 12


def claim_name(pool: str, names: Iterable[str]) -> str:
    """The name of the next NodeClaim of a NodePool. `names`: of all NodeClaims, also of those being deleted."""
    prefix = pool[:PREFIX_LENGTH].rstrip(".-")
    numbered = re.compile(rf"{re.escape(prefix)}-([1-9][0-9]{{0,{NUMBER_DIGITS - 1}}})")
    numbers = (int(match[1]) for name in names if (match := numbered.fullmatch(name)))
    return f"{prefix}-{max(numbers, default=0) + 1}"


def manifest(
    machine: NewMachine,
    pool: NodePool,
    name: str,
    well_known: frozenset[str],
    *,
    node_class: AgentPoolNodeClass | None = None,
    annotations: Mapping[str, str] = EMPTY,
) -> dict[str, Any]:
    """The NodeClaim to create. `node_class`: the NodePool's; None if it is not known. `annotations`: further ones."""
    template = pool.spec.template
    reference = template.spec.node_class_ref
    known = {
        **_fixed(machine.requirements, well_known, pool),
        **template.metadata.labels,
        labels.NODEPOOL: pool.name,
        f"{reference.group}/{reference.kind.lower()}": reference.name,
    }
    owner = {
        "apiVersion": pool.api_version,
        "kind": pool.kind,
        "name": pool.name,
        "uid": pool.metadata.uid,
        "blockOwnerDeletion": True,
    }
    spec: dict[str, Any] = {
        "nodeClassRef": {"group": reference.group, "kind": reference.kind, "name": reference.name},
        "requirements": [*map(_entry, required(machine))],
        "resources": {"requests": {k: v for k, v in quantities(machine.requests).items() if is_requested(k)}},
        "taints": [_taint(taint.key, taint.value, taint.effect) for taint in template.spec.taints],
        "startupTaints": [_taint(taint.key, taint.value, taint.effect) for taint in template.spec.startup_taints],
        "terminationGracePeriod": template.spec.termination_grace_period,
        "expireAfter": template.spec.expire_after,
    }
    return {
        "metadata": {
            "name": name,
            "labels": known,
            "annotations": {
                **template.metadata.annotations,
                **hashes(pool, node_class),
                MIN_VALUES_RELAXED: "false",
                **annotations,
            },
            # From the beginning, which saves a request before the machine is created.
            "finalizers": [labels.FINALIZER],
            "ownerReferences": [owner],
        },
        "spec": {field: value for field, value in spec.items() if value},
    }


def hashes(pool: NodePool, node_class: AgentPoolNodeClass | None) -> dict[str, str]:
    """The annotations by which drift of the NodeClaim is found. `node_class`: None if it is not known."""
    return {**hash_annotations(pool), **node_class_hash.hash_annotations(node_class)}


def _fixed(found: Requirements, well_known: frozenset[str], pool: NodePool) -> dict[str, str]:
    """The labels of the user's own keys, each with one of the values that are left.

    The decision counts on a label that the NodePool defines, so the Node has to bear it, whatever its value is. A key
    that only pods name has a value only if they list it.
    """
    defined = {normalise_key(one.key) for one in pool.spec.template.spec.requirements}
    return {
        key: value
        for key, allowed in found.items()
        if key not in well_known
        and key not in OF_NODE
        and is_copied(key)
        and (key in defined or not allowed.complement)
        and (value := allowed.example) is not None
    }


def required(machine: NewMachine) -> Iterator[Requirement]:
    """The requirements of the NodeClaim, its instance types in the order of prices."""
    for key, allowed in sorted(machine.requirements.items()):
        if key in OF_NODE:
            continue
        # Gt and Lt, which every release of the NodeClaim's CRD has; a bound that every label satisfies is only Exists.
        if allowed.least is not None and allowed.least < 1:
            yield Requirement(key=key, operator="Exists")
        elif allowed.least is not None:
            yield Requirement(key=key, operator="Gt", values=(str(allowed.least - 1),))
        if allowed.most is not None:
            yield Requirement(key=key, operator="Lt", values=(str(allowed.most + 1),))
        if allowed.values or (allowed.least is None and allowed.most is None):
            values = machine.instance_types if key == labels.INSTANCE_TYPE else tuple(sorted(allowed.values))
            yield Requirement(key=key, operator=allowed.operator, values=values, min_values=allowed.min_values or None)


def _entry(one: Requirement) -> dict[str, Any]:
    return {**msgspec.to_builtins(one), **({"values": [*one.values]} if one.values else {})}


def _taint(key: str, value: str, effect: str) -> dict[str, str]:
    return {"key": key, "effect": effect, **({"value": value} if value else {})}
