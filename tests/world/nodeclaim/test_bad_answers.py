"""Proxies, overload, expired tokens and missing permissions: each is reported, requests back off, and work continues.

tests/unit/runtime/test_kube.py and test_reflector.py test how each response is read; here the same responses replace
those of the API server for minutes, at every point of a claim's life.
"""

import asyncio
import gzip
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from provisioner.runtime.leaderelection import LeadershipLost
from provisioner.runtime.metrics import Metrics
from provisioner.simulator.audit_log import Call
from provisioner.simulator.world import KUBE_HOST
from tests.unit.runtime.kube_server import Answer, answer, obj, raw, status, stream
from tests.world.claims import CLAIMS, condition, puts, ready, removed
from tests.world.harness import SHIPPED_LEASE, Sim, node_claim, simulate, simulated
from tests.world.transcript import FAST, MINUTE, node_name, person, run_pod

pytestmark = pytest.mark.matrix(quick=0)

NAME = "gpu1"
READS = ("nodeclaims", "nodes", "customresourcedefinitions")
# Each CustomResourceDefinition that is used is listed and watched by its name.
READERS = {"customresourcedefinitions": 4}
Fits = Callable[[Call], bool]
Line = MutableMapping[str, Any]


@dataclass
class Weather:
    """Responses in place of the API server's. `calls` are the requests that got one."""

    sim: Sim
    fits: Fits
    answer: Answer
    calls: list[Call] = field(default_factory=list)

    async def __call__(self, call: Call, request: web.Request) -> web.StreamResponse | None:
        if person(call) or call.system != "kube" or not self.fits(call):
            return None
        self.calls.append(call)
        return await self.answer(request)

    def begins(self) -> None:
        """Start now; open connections are closed."""
        self.sim.world.before.append(self)
        for link in self.sim.network.links(host=KUBE_HOST):
            if link.who.startswith("ctl"):
                link.client.reset()

    def ends(self) -> None:
        self.sim.world.before.remove(self)

    async def lasts(self, seconds: float) -> list[Call]:
        """Apply it for that time; the requests that got such a response."""
        begun = len(self.calls)
        self.begins()
        await asyncio.sleep(seconds)
        self.ends()
        return self.calls[begun:]


@contextmanager
def logs() -> Iterator[list[Line]]:
    """The log lines of the program."""
    with capture_logs() as lines:
        yield lines


def everything(call: Call) -> bool:
    """All requests except those of the Lease, whose loss has its own test below."""
    return call.target.kind != "leases"


def watches(call: Call) -> bool:
    return call.verb == "WATCH"


async def to_a_login(_: web.Request) -> web.StreamResponse:
    return web.Response(status=302, headers={"Location": "http://login.example/"})


async def broken_gzip(_: web.Request) -> web.StreamResponse:
    body = gzip.compress(b'{"kind":"NodeList"}' * 100)[:-20]
    return web.Response(body=body[:15] + b"\0" * 20, headers={"Content-Encoding": "gzip"})


NODE = obj("Node", "a", "999999999")
DEEP = b'{"kind":"Node","metadata":{"name":"a"},"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
PAGE = b"<html><title>Sign in</title></html>"
UNEXPECTED = "UnexpectedResponse"

# The response, the requests it replaces, the reason in the metrics, and the text in the log.
ANSWERS: list[tuple[str, Fits, Answer, str, str]] = [
    ("a sign-in page", everything, raw(PAGE), UNEXPECTED, "Sign in"),
    ("a gateway's page", everything, raw(b"<h1>502 Bad Gateway</h1>", 502), UNEXPECTED, "502 Bad Gateway"),
    ("a redirect to a login", everything, to_a_login, UNEXPECTED, "302"),
    ("nothing", everything, raw(b""), UNEXPECTED, ""),
    ("half an object", everything, raw(b'{"kind":"NodeList","metadata":{"na'), UNEXPECTED, "not a list"),
    ("another's JSON", everything, answer({"error": "upstream"}), UNEXPECTED, "upstream"),
    ("broken compression", everything, broken_gzip, "NoResponse", "gzip"),
    ("nesting without end", everything, raw(DEEP), UNEXPECTED, ""),
    ("an overload", everything, status(429, "TooManyRequests", "slow down"), "TooManyRequests", "slow down"),
    ("an error", everything, status(500, "InternalError", "etcd is away"), "InternalError", "etcd is away"),
    ("a revoked token", everything, status(401, "Unauthorized", "Unauthorized"), "Unauthorized", "Unauthorized"),
    ("half a line", watches, stream(b'{"type":"ADDED","object":{"kind":"No'), "NoResponse", "inside a line"),
    ("an unknown event", watches, stream(b'{"type":"EXPLODED","object":{}}\n'), UNEXPECTED, "'EXPLODED'"),
    ("an event of nothing", watches, stream(b'{"type":"ADDED"}\n'), UNEXPECTED, "expected a"),
    (
        "an event nested without end",
        watches,
        stream(b'{"type":"ADDED","object":' + b"[" * 100_000 + b"\n"),
        UNEXPECTED,
        "",
    ),
    ("an error event", watches, stream({"type": "ERROR", "object": {"kind": "Status", "code": 500}}), "Unknown", ""),
]


@pytest.mark.matrix(quick=3)
@pytest.mark.parametrize(("calls", "sent", "reason", "words"), [c[1:] for c in ANSWERS], ids=[c[0] for c in ANSWERS])
def test_a_claim_lives_through_answers_that_make_no_sense(calls: Fits, sent: Answer, reason: str, words: str) -> None:
    """Two minutes in each phase of a life: logged, counted, retried with backoff, then the claim continues."""
    metrics = Metrics()

    async def story(sim: Sim) -> None:
        weather = Weather(sim, calls, sent)
        spells = []
        await sim.start_controller(metrics=metrics)
        spells.append(await weather.lasts(2 * MINUTE))
        await sim.apply(node_claim(NAME))
        spells.append(await weather.lasts(2 * MINUTE))
        uid = await ready(sim, NAME)
        spells.append(await weather.lasts(2 * MINUTE))
        await sim.delete_claim(NAME)
        spells.append(await weather.lasts(2 * MINUTE))
        await sim.until(lambda: sim.claim(NAME) is None, 1200, "the claim is gone")
        assert sim.audit_log.deletion_order(uid) == ["pool", "node", "claim"]
        assert len(puts(sim, NAME)) == 1
        for met in spells:
            often = Counter((call.verb, call.target.kind) for call in met)
            assert often
            # A 401 is retried once: the credentials may have changed meanwhile.
            most = 40 if reason == "Unauthorized" else 20
            assert all(count <= most * READERS.get(kind, 1) for (_, kind), count in often.items()), often
        for resource in READS:
            assert sample(metrics, "gpu_provisioner_cache_errors_total", resource=resource) >= 8
        await sim.settled()

    with logs() as lines:
        simulate(story, azure=FAST)
    failed = [line for line in lines if line["event"] == "failed to list or watch"]
    for resource in READS:
        named = [line for line in failed if line["resource"] == resource and line["reason"] == reason]
        assert any(words in line["error"] for line in named), (resource, failed[:5])
    assert max(line["failures"] for line in failed) >= 3


def sample(metrics: Metrics, name: str, **labels: str) -> float:
    return metrics.registry.get_sample_value(name, labels) or 0.0


@simulated(azure=FAST)
async def test_retry_after_delays_every_request(sim: Sim) -> None:
    """Retry-After of 20 s: each watch is retried after 20 s, and reconciles sooner only for new events."""
    weather = Weather(sim, everything, status(429, "TooManyRequests", "slow down", **{"Retry-After": "20"}))
    await sim.start_controller()
    await asyncio.sleep(5)
    await sim.apply(node_claim(NAME))
    await sim.until(lambda: puts(sim, NAME), 5, "the PUT is sent")
    met = await weather.lasts(5 * MINUTE)
    requested = Counter((call.verb, call.target) for call in met)
    assert {verb for verb, _ in requested} >= {"WATCH", "PATCH"}
    for verb, target in requested:
        times = [call.at for call in met if (call.verb, call.target) == (verb, target)]
        readers = READERS.get(target.kind, 1)
        if verb == "WATCH":
            assert min(later - sooner for sooner, later in zip(times, times[readers:], strict=False)) >= 20.0
        assert len(times) <= (15 + 2) * readers, (verb, target)
    await ready(sim, NAME, within_seconds=60)
    await removed(sim, NAME)
    await sim.settled()


@pytest.mark.parametrize("status_code", [200, 401, 403, 429, 500])
def test_a_lease_that_cannot_be_renewed_ends_the_process_with_its_name_in_the_log(status_code: int) -> None:
    """With the Lease affected too the leader logs it and exits, a successor waits, and the claim continues."""

    async def story(sim: Sim) -> None:
        response = raw(PAGE) if status_code == 200 else status(status_code, "Refused", "not today")
        weather = Weather(sim, lambda _: True, response)
        await sim.start_controller(restart_on=(LeadershipLost,))
        await sim.apply(node_claim(NAME))
        await sim.until(lambda: puts(sim, NAME), 5, "the PUT is sent")
        met = await weather.lasts(3 * MINUTE)
        assert len(sim.controllers) == 2
        often = Counter((call.who, call.verb, call.target.kind) for call in met)
        assert all(count <= 60 * READERS.get(kind, 1) for (_, _, kind), count in often.items())
        await ready(sim, NAME)
        await removed(sim, NAME)
        assert len(puts(sim, NAME)) == 1
        await sim.settled()

    with logs() as lines:
        simulate(story, azure=FAST)
    words = "Sign in" if status_code == 200 else "not today"
    for event in ("failed to renew the lease", "failed to acquire the lease"):
        assert any(words in line["error"] for line in lines if line["event"] == event)
    assert [line["event"] for line in lines].count("leader election lost") == 1


@simulated(azure=FAST)
async def test_writes_whose_answers_are_garbled_are_not_sent_again(sim: Sim) -> None:
    """Every write takes effect and is answered by a sign-in page: each is sent once, and its effect is observed."""

    async def garble(call: Call, response: web.StreamResponse) -> None:
        if not person(call) and call.system == "kube" and call.is_write and everything(call):
            assert isinstance(response, web.Response)
            response.body, response.content_type = PAGE, "text/html"

    sim.world.after.append(garble)
    await sim.start_controller()
    await sim.apply(node_claim(NAME))
    uid = await ready(sim, NAME)
    await removed(sim, NAME)
    assert sim.audit_log.deletion_order(uid) == ["pool", "node", "claim"]
    assert len(puts(sim, NAME)) == 1
    writes = [call for call in sim.audit_log.writes(who="ctl0") if call.system == "kube"]
    assert len(writes) <= 13 + 3
    await sim.settled()


# Permissions


class Denied(NamedTuple):
    """A verb on a kind that the controller may not use; `word` is Kubernetes' name of the verb."""

    verb: str
    kind: str
    subresource: str = ""

    @property
    def word(self) -> str:
        return {"POST": "create"}.get(self.verb, self.verb.lower())

    @property
    def sentence(self) -> str:
        return f'cannot {self.word} resource "{"/".join(filter(None, self[1:]))}"'

    def during(self, sim: Sim) -> Weather:
        def fits(call: Call) -> bool:
            return (call.verb, call.target.kind, call.target.subresource) == self

        message = f'User "system:serviceaccount:gpu-provisioner:gpu-provisioner" {self.sentence}'
        return Weather(sim, fits, status(403, "Forbidden", message))

    def __str__(self) -> str:
        return " ".join(filter(None, self))


UP = [
    Denied("LIST", "nodeclaims"),
    Denied("WATCH", "nodeclaims"),
    Denied("LIST", "nodes"),
    Denied("WATCH", "nodes"),
    Denied("LIST", "customresourcedefinitions"),
    Denied("WATCH", "customresourcedefinitions"),
    Denied("PATCH", "nodeclaims"),
    Denied("PATCH", "nodeclaims", "status"),
    Denied("PATCH", "nodes"),
    Denied("POST", "events"),
]
DOWN = [
    Denied("DELETE", "nodes"),
    Denied("LIST", "pods"),
    Denied("POST", "pods", "eviction"),
    Denied("PATCH", "nodes"),
    Denied("PATCH", "nodeclaims"),
    Denied("PATCH", "nodeclaims", "status"),
]


@pytest.mark.matrix(quick=2)
@pytest.mark.parametrize("denied", UP, ids=str)
def test_a_missing_permission_is_named_and_its_coming_is_noticed(denied: Denied) -> None:
    """A permission is missing for half an hour: logged, in the metrics, retried with backoff, and used once granted."""
    metrics = Metrics()

    async def story(sim: Sim) -> None:
        weather = denied.during(sim)
        weather.begins()
        await sim.start_controller(metrics=metrics)
        await sim.apply(node_claim(NAME))
        await asyncio.sleep(30 * MINUTE)
        assert 1 <= len(weather.calls) <= 90 * READERS.get(denied.kind, 1)
        method = denied.word.upper()
        assert sample(metrics, "client_go_request_total", code="403", method=method) == len(weather.calls)
        weather.ends()
        uid = await ready(sim, NAME, within_seconds=20 * MINUTE)
        await removed(sim, NAME)
        assert sim.audit_log.deletion_order(uid) == ["pool", "node", "claim"]
        await sim.settled()

    with logs() as lines:
        simulate(story, azure=FAST)
    assert names(lines, denied)


@pytest.mark.matrix(quick=2)
@pytest.mark.parametrize("denied", DOWN, ids=str)
def test_a_permission_lost_before_a_removal_delays_it_and_breaks_no_order(denied: Denied) -> None:
    """A permission for removal is missing for half an hour: logged, retried with backoff, and the order is kept."""

    async def story(sim: Sim) -> None:
        weather = denied.during(sim)
        await sim.start_controller()
        await sim.apply(node_claim(NAME))
        uid = await ready(sim, NAME)
        run_pod(sim, "app", node_name(sim, NAME))
        weather.begins()
        await sim.delete_claim(NAME)
        await asyncio.sleep(30 * MINUTE)
        assert 1 <= len(weather.calls) <= 90 * READERS.get(denied.kind, 1)
        weather.ends()
        await sim.until(lambda: sim.claim(NAME) is None, 20 * MINUTE, "the claim is gone")
        assert sim.audit_log.deletion_order(uid) == ["pool", "node", "claim"]
        await sim.settled()

    with logs() as lines:
        simulate(story, azure=FAST)
    assert names(lines, denied)


@simulated(azure=FAST)
async def test_a_forbidden_change_to_the_node_stands_on_the_claim(sim: Sim) -> None:
    """Without permission to patch Nodes the claim states it with the remedy, and is overdue later."""
    weather = Denied("PATCH", "nodes").during(sim)
    weather.begins()
    await sim.start_controller()
    await sim.apply(node_claim(NAME))
    await sim.until(
        lambda: condition(sim.claim(NAME), "Registered").get("reason") == "NodeUpdateRefused",
        20 * MINUTE,
        "the refusal is reported",
    )
    reported = condition(sim.claim(NAME), "Registered")
    assert reported["status"] == "Unknown"
    assert reported["message"].startswith("Forbidden: ")
    assert reported["message"].endswith("; see kubectl auth can-i patch nodes")
    await asyncio.sleep(20 * MINUTE)
    assert condition(sim.claim(NAME), "Registered")["message"].endswith("; overdue: over 15 min")
    weather.ends()
    await ready(sim, NAME, within_seconds=20 * MINUTE)
    await sim.settled()


@simulated(azure=FAST)
async def test_a_server_that_has_not_read_its_roles_delays_a_claim_by_seconds(sim: Sim) -> None:
    """An API server that has just started forbids everything: the claim is delayed by seconds, not ten minutes."""
    await sim.start_controller()
    await asyncio.sleep(5)
    weather = Weather(sim, everything, status(403, "Forbidden", "clusterrole not found"))
    sim.world.before.append(weather)
    await sim.apply(node_claim(NAME))
    await asyncio.sleep(3)
    assert {call.verb for call in weather.calls} == {"PATCH"}
    weather.ends()
    await sim.until(lambda: puts(sim, NAME), 10, "the PUT is sent")
    await ready(sim, NAME)
    await removed(sim, NAME)
    await sim.settled()


def names(lines: list[Line], denied: Denied) -> bool:
    """Whether a warning in the log names the missing permission."""
    spoken = (str(line.get("error")) for line in lines if line["log_level"] in ("warning", "error"))
    return any(denied.sentence in error for error in spoken)


# Tokens


class Mount:
    """A service account's files as the kubelet mounts them, and an API server that accepts only some tokens."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.accepted = ["first"]
        self.used: Counter[str] = Counter()
        self.refused: list[Call] = []
        (folder / "ca.crt").write_text("nobody looks at it in memory")
        self.write("first")

    def write(self, token: str) -> None:
        (self.folder / "token").write_text(f"{token}\n")

    async def __call__(self, call: Call, request: web.Request) -> web.StreamResponse | None:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if person(call) or call.system != "kube":
            return None
        if token in self.accepted:
            self.used[token] += 1
            return None
        self.refused.append(call)
        return await status(401, "Unauthorized", "Unauthorized")(request)


def test_a_revoked_token_is_sent_rarely_until_its_file_changes(tmp_path: Path) -> None:
    """No token is accepted for ten minutes; the new file is used within half a minute."""

    async def story(sim: Sim) -> None:
        mount = Mount(tmp_path)
        sim.world.before.append(mount)
        await sim.start_controller(service_account=tmp_path, restart_on=(LeadershipLost,))
        await sim.apply(node_claim(NAME))
        await sim.until(lambda: puts(sim, NAME), 5, "the PUT is sent")
        mount.accepted = ["second"]
        await asyncio.sleep(10 * MINUTE)
        requested = Counter((call.who, call.verb, call.target.kind) for call in mount.refused)
        assert max(requested.values()) <= 2 * 10 * 60 / 5 + 40, requested  # each try is two: the file may have changed
        mount.write("second")
        await ready(sim, NAME, within_seconds=45)
        await removed(sim, NAME)
        assert len(puts(sim, NAME)) == 1
        await sim.settled()

    with logs() as lines:
        simulate(story, lease=SHIPPED_LEASE, azure=FAST)
    assert any("401 Unauthorized" in str(line.get("error")) for line in lines if line["log_level"] == "warning")


@simulated(azure=FAST)
async def test_a_token_that_is_replaced_in_time_is_never_refused(sim: Sim, tmp_path: Path) -> None:
    """The kubelet writes a new token each 48 min and the old one expires 12 min later: no request is refused."""
    mount = Mount(tmp_path)
    sim.world.before.append(mount)
    await sim.start_controller(service_account=tmp_path)
    await sim.apply(node_claim(NAME))
    for older, newer in itertools.pairwise(["first", "second", "third", "fourth"]):
        mount.accepted = [older, newer]
        mount.write(newer)
        await asyncio.sleep(12 * MINUTE)
        mount.accepted = [newer]
        await asyncio.sleep(36 * MINUTE)
    await removed(sim, NAME)
    assert mount.refused == []
    assert list(mount.used) == ["first", "second", "third", "fourth"]


def test_a_token_file_that_is_away_for_a_while_stops_nobody(tmp_path: Path) -> None:
    """A missing or empty token file is logged; the token read before is used meanwhile."""

    async def story(sim: Sim) -> None:
        mount = Mount(tmp_path)
        sim.world.before.append(mount)
        await sim.start_controller(service_account=tmp_path)
        await sim.apply(node_claim(NAME))
        await sim.until(lambda: puts(sim, NAME), 5, "the PUT is sent")
        (tmp_path / "token").unlink()
        await ready(sim, NAME)
        mount.write("")
        await removed(sim, NAME)
        assert mount.refused == []
        await sim.settled()

    with logs() as lines:
        simulate(story, azure=FAST)
    reported = {str(line.get("error")) for line in lines if line["log_level"] == "warning"}
    assert any("token: FileNotFoundError" in error for error in reported), reported
    assert any("token is empty" in error for error in reported), reported


# Large objects


def test_large_nodes_cost_no_list_and_no_life() -> None:
    """A Node of 3 MiB changes constantly: its events are read, and claims are served."""
    metrics = Metrics()

    async def story(sim: Sim) -> None:
        sim.store.create("nodes", {"metadata": {"name": "huge"}})
        sim.store.patch("nodes", "huge", {"status": {"images": [{"names": ["x" * 3 * 2**20]}]}}, subresource="status")
        await sim.start_controller(metrics=metrics)
        await sim.apply(node_claim(NAME))
        begun = sim.now
        for number in itertools.count():
            if sim.condition(NAME, "Ready") == "True":
                break
            assert sim.now - begun < 15 * MINUTE
            sim.store.patch("nodes", "huge", {"metadata": {"labels": {"n": str(number)}}})
            await asyncio.sleep(10)
        assert len(sim.audit_log.calls(who="ctl0", verb="LIST", kind="nodes")) == 1
        await removed(sim, NAME)
        await sim.settled()

    with logs() as lines:
        simulate(story, azure=FAST)
    assert [line for line in lines if line["event"] == "failed to list or watch"] == []


@simulated(azure=FAST)
async def test_a_claim_as_large_as_the_limits_allow_is_like_any_other(sim: Sim) -> None:
    """A claim with all the values and annotations that it may have is launched and removed."""
    await sim.start_controller()
    claim = node_claim(NAME)
    claim["spec"]["requirements"] += [
        {"key": f"example.com/{n}", "operator": "NotIn", "values": ["x" * 60] * 54} for n in range(90)
    ]
    claim["metadata"]["annotations"] = {"example.com/notes": "x" * 250 * 1024}
    assert len(json.dumps(sim.store.create(CLAIMS, claim))) > 0.5 * 2**20
    await ready(sim, NAME)
    await removed(sim, NAME)
    await sim.settled()
