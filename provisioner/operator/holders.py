"""The identities of the holders of the Lease: which release of the chart a process belongs to.

All releases of a cluster share one Lease, so that a second one waits. Its identity shows that the holder is another
release, and not another replica of its own.

Source: https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#pod-template-hash-label (names of Pods).
"""

import re
from typing import NamedTuple

# The hash of the ReplicaSet and the random part of a Pod of a Deployment; or the Pod of `helm test`.
_SUFFIX = re.compile(r"(-[a-z0-9]{1,10}-[a-z0-9]{5}|-check)$")
# The API server cuts the name of the ReplicaSet so that the name of a Pod, with its random part, is not longer
# (https://github.com/kubernetes/apiserver/blob/master/pkg/storage/names/generate.go). The name of the Deployment has
# at least so many characters then: the rest is two dashes, a hash of at most 10 and the random part.
_LONGEST = 63
_NOT_CUT = _LONGEST - len("-1234567890-12345")


class Holder(NamedTuple):
    """A Pod by its name and namespace; `namespace` is "" of a process outside a Pod and of earlier versions."""

    pod: str
    namespace: str

    @property
    def release(self) -> tuple[str, str]:
        """The namespace and the Deployment, of one with a long name its first characters."""
        return self.namespace, _SUFFIX.sub("", self.pod)[:_NOT_CUT]


def identity(pod: str, namespace: str, unique: str) -> str:
    """The identity of a process: unique to each start, and recognizable by its Pod."""
    return f"{pod}.{namespace}_{unique}" if namespace else f"{pod}_{unique}"


def holder(text: str) -> Holder:
    """The holder with this identity."""
    name = text.rpartition("_")[0] or text
    # The name of a Pod can have dots, that of a namespace cannot.
    pod, dot, namespace = name.rpartition(".")
    return Holder(pod, namespace) if dot else Holder(name, "")


def another_release(own: str, text: str) -> Holder | None:
    """The holder with the identity `text` if it is of another release than `own`; None if it is not known to be."""
    mine, its = holder(own), holder(text)
    return its if mine.namespace and its.namespace and mine.release != its.release else None
