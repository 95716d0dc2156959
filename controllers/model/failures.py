"""Failed requests as facts: of calls to the cloud, and of requests for one Node or Pod to the API server.

Moments are loop times in seconds; methods take the current loop time.
"""

import hashlib
import math
from typing import Literal

import msgspec

from provisioner.api import labels, reasons
from provisioner.api.nodeclaim import NodeClaim
from provisioner.api.nodeclass import AgentPoolNodeClass

Verb = Literal["evict", "delete", "read"]


def metadata_digest(claim: NodeClaim) -> str:
    """A digest of the labels and annotations of a claim: all that a user can change, since the spec is immutable.

    The text itself may have 256 KiB. What reports a failure does not end it.
    """
    notes = sorted(item for item in claim.metadata.annotations.items() if item[0] != labels.REPORTED)
    text = repr((sorted(claim.metadata.labels.items()), notes))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def version_of(node_class: AgentPoolNodeClass | None) -> str:
    """A version of the spec of a node class: an edit changes it, also one that restores an earlier spec."""
    return f"{node_class.metadata.uid}/{node_class.metadata.generation}" if node_class is not None else ""


class CloudFailure(msgspec.Struct, frozen=True, kw_only=True):
    """The last of `times` failures in a row of one kind of cloud call, at `at`.

    `delay`: seconds from `at` until the next attempt; None: no further attempt. `within`: the longest delay that can
    follow, however often the call fails; None if there is no further attempt.
    `of_machine`: the request was accepted, and the machine failed, which may have been billed.
    `uncertain`: the request may have succeeded; `unanswered`: no answer arrived, or a server error.
    `for_uid`, `for_metadata` and `for_class`: the claim for which the call was made, the digest of its labels and
    annotations, and the version of its node class.
    """

    kind: str
    reason: str
    message: str
    times: int = 1
    at: float = 0.0
    delay: float | None = 0.0
    uncertain: bool = False
    unanswered: bool = False
    of_machine: bool = False
    within: float | None = None
    for_uid: str = ""
    for_metadata: str = ""
    for_class: str = ""

    def concerns(self, claim: NodeClaim | None, node_class: AgentPoolNodeClass | None = None) -> bool:
        """Whether the failure still applies to this claim: same UID, and if it was rejected, nothing edited since.

        `node_class`: the one that the claim refers to; None if that is of another kind.
        """
        if claim is None or claim.uid != self.for_uid:
            return self.for_uid == ""
        if self.for_metadata == "":
            return True
        return self.for_metadata == metadata_digest(claim) and self.for_class == version_of(node_class)

    def age(self, now: float) -> float:
        """Seconds since the failure."""
        return now - self.at

    def retry_in(self, now: float) -> float:
        """Seconds until the next attempt is allowed; inf if none is."""
        return math.inf if self.delay is None else max(0.0, self.delay - (now - self.at))


class RequestFailure(msgspec.Struct, frozen=True, kw_only=True):
    """The API server refused a request `times` times in a row, last at `at`; the next is sent `seconds` later."""

    message: str
    verb: Verb = "evict"
    times: int = 1
    at: float = 0.0
    seconds: float = 0.0

    def retry_in(self, now: float) -> float:
        """Seconds until the next attempt is allowed."""
        return max(0.0, self.at + self.seconds - now)


def wrong_cluster(of_cluster: str) -> CloudFailure:
    """Why nothing is done while the Nodes are in other resource groups than the managed cluster's machines."""
    return CloudFailure(kind="retryable", reason=reasons.WRONG_CLUSTER, message=wrong_cluster_message(of_cluster))


def wrong_cluster_message(of_cluster: str) -> str:
    """At most 256 bytes: the name of a resource group has at most 90 characters."""
    group = of_cluster.rpartition("/")[2]
    return (
        f"no Node is in {group}, the node resource group of the managed cluster of the settings. Correct"
        " ARM_SUBSCRIPTION_ID, ARM_RESOURCE_GROUP, AZURE_CLUSTER_NAME"
    )
