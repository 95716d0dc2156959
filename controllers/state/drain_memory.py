"""The memory of one Node's drain: pods and volumes as last read, accepted evictions, and refusals.

It begins with the first read of the Node's pods. Records of pods that no longer exist are dropped with each read.
"""

from msgspec.structs import replace

from controllers.model.drains import Drain, Volumes
from controllers.model.failures import RequestFailure, Verb
from controllers.model.results import Evicted, ReadAttached, ReadPods
from controllers.model.steps import DeletePods, EvictPods, ReadDrain, ReadVolumes

# A budget can allow an eviction at any moment; any other refusal is retried with exponential backoff.
BLOCKED_SECONDS = 5.0
FAILED_FIRST_SECONDS, FAILED_MOST_SECONDS = 2.0, 60.0


def with_pods(drain: Drain, read: ReadPods, *, began: float, evictable: bool) -> Drain:
    """The Node's pods were read. `evictable`: one of them can be evicted."""
    pods, present = read.pods, {pod.metadata.uid for pod in read.pods}
    # Of what is attached it is not known yet which pods that stay use it.
    detached = read.attachments == ()
    return replace(
        drain,
        pods=pods,
        read_at=began,
        read_failure=None,
        evicted={uid: at for uid, at in drain.evicted.items() if uid in present},
        failures={uid: failure for uid, failure in drain.failures.items() if uid in present},
        had_evictable=drain.had_evictable or evictable,
        volumes=Volumes(read_at=began) if detached else drain.volumes,
    )


def with_volumes(drain: Drain, result: ReadAttached, *, began: float) -> Drain:
    """The Node's VolumeAttachments were read."""
    volumes = replace(drain.volumes, attachments=result.attachments, kept=result.kept, read_at=began, read_failure=None)
    return replace(drain, volumes=volumes)


def with_read_failure(drain: Drain, step: ReadDrain | ReadVolumes, message: str, *, now: float) -> Drain:
    """The API server did not answer the read."""
    if isinstance(step, ReadDrain):
        return replace(drain, read_failure=_again(drain.read_failure, message, "read", now))
    failure = _again(drain.volumes.read_failure, message, "read", now)
    return replace(drain, volumes=replace(drain.volumes, read_failure=failure))


def with_evictions(drain: Drain, step: EvictPods | DeletePods, result: Evicted, *, now: float) -> Drain:
    """Pods were evicted or deleted. Deleted ones have a new deletionTimestamp, so the pods are read again at once."""
    verb: Verb = "evict" if isinstance(step, EvictPods) else "delete"
    done = result.accepted | result.gone
    failures = dict(drain.failures)
    for uid, message in result.blocked.items():
        failures[uid] = RequestFailure(message=message, verb=verb, at=now, seconds=BLOCKED_SECONDS)
    for uid, message in result.failed.items():
        failures[uid] = _again(drain.failures.get(uid), message, verb, now)
    drain = replace(drain, failures={uid: failure for uid, failure in failures.items() if uid not in done})
    if verb == "delete":
        return replace(drain, read_at=None)
    return replace(drain, evicted={**drain.evicted, **dict.fromkeys(done, now)})


def _again(before: RequestFailure | None, message: str, verb: Verb, now: float) -> RequestFailure:
    times = before.times + 1 if before is not None and before.verb == verb else 1
    seconds = min(FAILED_FIRST_SECONDS * 2.0 ** min(times - 1, 16), FAILED_MOST_SECONDS)
    return RequestFailure(message=message, verb=verb, times=times, at=now, seconds=seconds)
