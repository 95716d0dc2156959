"""The store that simulated machines write to when the API server is the real one.

The part of the interface of `simulator.kube.store.Store` that machines and scenarios use, over HTTPS. Calls are
synchronous, as there: each blocks the loop for some milliseconds, which only delays the test (the controller is a
process of its own). Subscribers are called for every change in the order of revisions, shortly after it.

Races are resolved as kubelet and node controller do: a write to a deleted object has no effect, and a Node's taints are
merged as a difference to the last read, with its resourceVersion.
"""

import asyncio
import http.client
import json
import ssl
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import urlencode, urlsplit

import aiohttp

from provisioner.simulator.kube.errors import ApiError

Json = dict[str, Any]
Change = Literal["ADDED", "MODIFIED", "DELETED"]
Subscriber = Callable[[Change, str, Json, Json | None], None]

REQUEST_SECONDS = 20.0
TRIES = 5
UNSERVED_SECONDS = 0.5
LINE_BYTES = 4 * 2**20
TYPES = {"merge": "application/merge-patch+json", "strategic": "application/strategic-merge-patch+json"}
# By group, or by resource where its version is not that of its group.
ROOTS = {
    "": "/api/v1",
    "gpu-provisioner.sh": "/apis/gpu-provisioner.sh/v1alpha1",
    "karpenter.sh": "/apis/karpenter.sh/v1",
    "nodeoverlays.karpenter.sh": "/apis/karpenter.sh/v1alpha1",
    "policy": "/apis/policy/v1",
    "apps": "/apis/apps/v1",
    "coordination.k8s.io": "/apis/coordination.k8s.io/v1",
    "storage.k8s.io": "/apis/storage.k8s.io/v1",
    "gkm.io": "/apis/gkm.io/v1alpha1",
    "janitor.dgxc.nvidia.com": "/apis/janitor.dgxc.nvidia.com/v1alpha1",
    "resource.k8s.io": "/apis/resource.k8s.io/v1",
}


def path_of(resource: str, name: str = "", namespace: str = "", subresource: str = "") -> str:
    """The path of that resource, such as `nodes` or `nodeclaims.karpenter.sh`."""
    plural, _, group = resource.partition(".")
    root = ROOTS.get(resource) or ROOTS[group]
    space = f"/namespaces/{namespace}" if namespace else ""
    return "/".join(part for part in (f"{root}{space}/{plural}", name, subresource) if part)


def version_of(obj: Json) -> int:
    """The object's resourceVersion: etcd's revision, comparable over all objects of a cluster."""
    return int(obj["metadata"]["resourceVersion"])


class RealStore:
    """`feed` must be running for `subscribe` to have an effect. Methods raise ApiError with the server's message."""

    def __init__(self, url: str, trust: ssl.SSLContext, token: str) -> None:
        self._url, self._trust, self._token = url, trust, token
        where = urlsplit(url)
        self._link = http.client.HTTPSConnection(
            where.hostname or "", where.port, timeout=REQUEST_SECONDS, context=trust
        )
        self._read: dict[str, Json] = {}
        self._subscribers: list[Subscriber] = []

    def now(self) -> datetime:
        """The wall clock, which the server has too."""
        return datetime.now(UTC)

    def close(self) -> None:
        self._link.close()

    # Reading

    def get(self, resource: str, name: str, namespace: str = "") -> Json | None:
        status, answer = self._send("GET", path_of(resource, name, namespace))
        if status == 404:
            return None
        found = _accepted(status, answer)
        if resource == "nodes":
            self._read[name] = found
        return found

    def list(self, resource: str, namespace: str = "", *, labels: str = "", fields: str = "") -> list[Json]:
        """Empty for a kind that is not served."""
        try:
            return self._listed(resource, namespace, labels=labels, fields=fields)["items"] or []
        except ApiError as error:
            if error.status != 404:
                raise
            return []

    def each(self, resource: str, namespace: str = "") -> Iterator[Json]:
        """The objects of this kind."""
        return iter(self.list(resource, namespace))

    def revision(self) -> int:
        """The cluster's revision now."""
        return version_of(self._listed("nodes", limit="1"))

    def subscribe(self, callback: Subscriber) -> None:
        self._subscribers.append(callback)

    # Writing

    def create(self, resource: str, obj: Json, namespace: str = "") -> Json:
        return _accepted(*self._send("POST", path_of(resource, "", namespace), obj))

    def patch(
        self,
        resource: str,
        name: str,
        patch: Json,
        namespace: str = "",
        *,
        how: Literal["merge", "strategic"] = "merge",
        subresource: str = "",
    ) -> Json:
        """As the store's; {} if the object is already deleted."""
        path = path_of(resource, name, namespace, subresource)
        if resource == "nodes" and "taints" in (patch.get("spec") or {}):
            return self._patch_taints(path, name, patch)
        status, answer = self._send("PATCH", path, patch, TYPES[how])
        return {} if status == 404 else _accepted(status, answer)

    def delete(
        self, resource: str, name: str, namespace: str = "", *, uid: str | None = None, grace: int | None = None
    ) -> None:
        """As the store's; no effect if the object is already deleted."""
        options: Json = {"preconditions": {"uid": uid} if uid else None, "gracePeriodSeconds": grace}
        status, answer = self._send("DELETE", path_of(resource, name, namespace), options)
        if status not in {404, 409}:
            _accepted(status, answer)

    def _patch_taints(self, path: str, name: str, patch: Json) -> Json:
        before = (self._read.get(name) or {}).get("spec", {}).get("taints") or []
        wanted = patch["spec"]["taints"] or []
        gone = [taint for taint in before if taint not in wanted]
        new = [taint for taint in wanted if taint not in before]
        for _ in range(TRIES):
            node = self.get("nodes", name)
            if node is None:
                return {}
            kept = [taint for taint in node["spec"].get("taints") or [] if taint not in gone]
            have = {(taint["key"], taint["effect"]) for taint in kept}
            taints = [*kept, *(taint for taint in new if (taint["key"], taint["effect"]) not in have)]
            version = {"resourceVersion": node["metadata"]["resourceVersion"]}
            body = {
                "metadata": {**(patch.get("metadata") or {}), **version},
                "spec": {**patch["spec"], "taints": taints or None},
            }
            status, answer = self._send("PATCH", path, body, TYPES["merge"])
            if status == 404:
                return {}
            if status != 409:
                return _accepted(status, answer)
        raise ApiError(409, "Conflict", f"the taints of {name} would not stand still")

    # HTTP

    def _listed(
        self, resource: str, namespace: str = "", *, labels: str = "", fields: str = "", limit: str = ""
    ) -> Json:
        query = {"labelSelector": labels, "fieldSelector": fields, "limit": limit}
        path = f"{path_of(resource, '', namespace)}?{urlencode({key: value for key, value in query.items() if value})}"
        return _accepted(*self._send("GET", path))

    def _send(self, method: str, path: str, body: object = None, kind: str = "application/json") -> tuple[int, Json]:
        """The status and the answer. A request that etcd was too slow for is repeated, as kubelets do."""
        for attempt in range(TRIES):
            try:
                status, answer = self._sent(method, path, body, kind)
            except TimeoutError:
                self._link.close()
                if attempt == TRIES - 1:
                    raise
                continue
            if status == 409 and method == "POST" and attempt and isinstance(body, dict):
                return self._sent("GET", f"{path}/{body['metadata']['name']}", None, kind)
            if status < 500 or "timed out" not in answer.get("message", ""):
                break
        return status, answer

    def _sent(self, method: str, path: str, body: object, kind: str) -> tuple[int, Json]:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind, "User-Agent": "machines"}
        data = None if body is None else json.dumps(body)
        try:
            self._link.request(method, path, data, headers)
            answer = self._link.getresponse()
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            # The server has closed an idle connection: nothing was done.
            self._link.close()
            self._link.request(method, path, data, headers)
            answer = self._link.getresponse()
        text = answer.read()
        if answer.status == 404 and not text.startswith(b"{"):  # a kind that is not served has no Status
            return 404, {"reason": "NotFound", "message": text.decode()}
        return answer.status, json.loads(text)

    # Watching

    async def feed(self, *resources: str) -> None:
        """Watch these kinds and call the subscribers, until cancelled; existing objects are reported as ADDED."""
        headers = {"Authorization": f"Bearer {self._token}"}
        connector = aiohttp.TCPConnector(ssl=self._trust)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_SECONDS)
        async with (
            aiohttp.ClientSession(
                self._url, connector=connector, headers=headers, timeout=timeout, read_bufsize=LINE_BYTES
            ) as session,
            asyncio.TaskGroup() as tasks,
        ):
            for resource in resources:
                tasks.create_task(self._watch(session, resource))

    async def _watch(self, session: aiohttp.ClientSession, resource: str) -> None:
        known: dict[str, Json] = {}
        version = ""
        while True:
            query = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true"}
            try:
                answer = await session.get(f"{path_of(resource)}?{urlencode(query)}")
            except aiohttp.ConnectionTimeoutError:  # the loop was blocked for as long: continue at the same version
                continue
            async with answer:
                # The kind is not served, or not yet again: its storage is being initialized (429).
                if answer.status in (404, 429):
                    version = ""
                    await asyncio.sleep(UNSERVED_SECONDS)
                    continue
                assert answer.status == 200, await answer.text()
                link = answer.connection.transport if answer.connection is not None else None
                try:
                    async for line in answer.content:
                        event = json.loads(line)
                        assert event["type"] != "ERROR", event
                        version = event["object"]["metadata"]["resourceVersion"]
                        if event["type"] != "BOOKMARK":
                            self._notify(event["type"], resource, event["object"], known)
                finally:
                    # Closing without the server's TLS close_notify: the loop ends before it would arrive.
                    if link is not None:
                        link.abort()

    def _notify(self, kind: Change, resource: str, obj: Json, known: dict[str, Json]) -> None:
        uid = obj["metadata"]["uid"]
        before = known.pop(uid, None)
        if kind != "DELETED":
            known[uid] = obj
        for subscriber in self._subscribers:
            subscriber(kind, resource, obj, before)


def _accepted(status: int, answer: Json) -> Json:
    if status >= 400:
        raise ApiError(status, answer.get("reason", ""), answer.get("message", ""), answer.get("details"))
    return answer
