"""Who may read the metrics, by the API server's reviews; and what scrapes cost."""

import asyncio
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily

from provisioner.runtime import metrics_access
from provisioner.runtime.metrics_access import BUSY, FORBIDDEN, OK, UNAUTHENTICATED, MetricsAccess
from provisioner.runtime.server import PAGE_SECONDS, RESPONSES_MOST, health_app, metrics_app, serve
from tests.unit.runtime.kube_server import KubeServer, answer, kube_client, kube_server, status

pytestmark = pytest.mark.asyncio

PROMETHEUS = {"username": "system:serviceaccount:monitoring:prometheus", "groups": ["system:authenticated"]}


def reviewed(**fields: Any) -> Any:
    """The API server's response to a review."""
    return answer({"status": fields}, 201)


def requests(server: KubeServer) -> list[str]:
    return [seen.path.rpartition("/")[2] for seen in server.seen]


async def test_a_token_that_may_get_the_path_is_allowed_for_a_minute() -> None:
    """One TokenReview and one SubjectAccessReview for many scrapes; the user's groups are reviewed too."""
    async with kube_server() as server, kube_client(server) as kube:
        access = MetricsAccess(kube)
        server.then(reviewed(authenticated=True, user=PROMETHEUS), reviewed(allowed=True))
        assert [await access("Bearer token-a") for _ in range(5)] == [OK] * 5
        assert requests(server) == ["tokenreviews", "subjectaccessreviews"]
        assert server.seen[0].body["spec"] == {"token": "token-a"}
        spec = server.seen[1].body["spec"]
        assert spec["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}
        assert (spec["user"], spec["groups"]) == (PROMETHEUS["username"], PROMETHEUS["groups"])


async def test_others_are_refused() -> None:
    """Without a token or with an invalid one 401, without the permission 403; requests without a token cost nothing."""
    async with kube_server() as server, kube_client(server) as kube:
        access = MetricsAccess(kube)
        for header in ("", "Basic abc", "Bearer ", "Bearer ü", "Bearer " + "a" * 9000):
            assert await access(header) == UNAUTHENTICATED
        assert not server.seen
        server.then(
            reviewed(authenticated=False), reviewed(authenticated=True, user=PROMETHEUS), reviewed(allowed=False)
        )
        assert [await access("Bearer wrong"), await access("Bearer other")] == [UNAUTHENTICATED, FORBIDDEN]
        assert [await access("Bearer wrong"), await access("Bearer other")] == [UNAUTHENTICATED, FORBIDDEN]
        assert len(server.seen) == 3


async def test_an_outage_of_the_api_server_does_not_hide_the_metrics() -> None:
    """A token that was allowed stays allowed for ten minutes; an unknown one is not."""
    async with kube_server() as server, kube_client(server) as kube:
        access = MetricsAccess(kube)
        server.then(reviewed(authenticated=True, user=PROMETHEUS), reviewed(allowed=True))
        assert await access("Bearer token-a") == OK
        server.otherwise = status(403, "Forbidden", "no")
        for key, verdict in access._verdicts.items():
            access._verdicts[key] = verdict._replace(at=verdict.at - metrics_access.KEPT_SECONDS)
        assert await access("Bearer token-a") == OK
        assert await access("Bearer token-b") == BUSY


async def test_many_tokens_cost_few_requests_at_once() -> None:
    """Of 100 requests with different tokens two are reviewed at a time, and those beyond the queue are refused."""
    async with kube_server() as server, kube_client(server) as kube:
        running, most = 0, 0

        async def slow(request: web.Request) -> web.StreamResponse:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.02)
            running -= 1
            return await reviewed(authenticated=False)(request)

        server.otherwise = slow
        access = MetricsAccess(kube)
        found = await asyncio.gather(*(access(f"Bearer {number}") for number in range(100)))
        assert most == metrics_access.REVIEWS_AT_ONCE
        assert found.count(UNAUTHENTICATED) == metrics_access.WAITING_MOST
        assert found.count(BUSY) == 100 - metrics_access.WAITING_MOST


@pytest.mark.parametrize("revoked", [False, True])
async def test_requests_with_invalid_tokens_neither_keep_nor_end_an_access(*, revoked: bool) -> None:
    """While the queue is full of them, an allowed token is reviewed: its user has the access that it has now."""
    async with kube_server() as server, kube_client(server) as kube:
        access = MetricsAccess(kube)
        server.then(reviewed(authenticated=True, user=PROMETHEUS), reviewed(allowed=True))
        assert await access("Bearer token-a") == OK
        for key, verdict in access._verdicts.items():
            access._verdicts[key] = verdict._replace(at=verdict.at - metrics_access.KEPT_SECONDS)

        async def review(request: web.Request) -> web.StreamResponse:
            await asyncio.sleep(0.01)
            token = (await request.json())["spec"].get("token")
            if token is None:
                return await reviewed(allowed=True)(request)
            known = token == "token-a" and not revoked
            return await (reviewed(authenticated=True, user=PROMETHEUS) if known else reviewed())(request)

        server.otherwise = review
        invalid = [asyncio.ensure_future(access(f"Bearer {number}")) for number in range(50)]
        await asyncio.sleep(0)
        assert await access("Bearer token-a") == (UNAUTHENTICATED if revoked else OK)
        assert BUSY in await asyncio.gather(*invalid)


# As of 80 machines.
SERIES = 4600


class Counted:
    """A collector that counts how often the metrics are computed."""

    def __init__(self) -> None:
        self.times = 0

    def collect(self) -> Any:
        self.times += 1
        found = GaugeMetricFamily("story", "Of machines.", labels=["machine"])
        for number in range(SERIES):
            found.add_metric([f"machine-{number}"], 1)
        yield found


async def test_scrapes_share_one_page_and_do_not_delay_probes() -> None:
    """Of 200 scrapes at once a few are answered with one text; the probe beside them is answered."""
    registry, counted = CollectorRegistry(), Counted()
    registry.register(counted)
    registered = counted.times
    limit = aiohttp.TCPConnector(limit=0)
    async with (
        serve("127.0.0.1", 0, metrics_app(registry)) as metrics,
        serve("127.0.0.1", 0, health_app(live={"ping": lambda: None}, ready={})) as health,
        aiohttp.ClientSession(connector=limit) as session,
    ):
        loop = asyncio.get_running_loop()
        began = loop.time()

        async def scrape() -> int:
            async with session.get(f"http://127.0.0.1:{metrics}/metrics") as answered:
                await answered.read()
                return answered.status

        scrapes = [asyncio.create_task(scrape()) for _ in range(200)]
        probed = aiohttp.ClientTimeout(total=5)  # as of the chart's liveness probe
        async with session.get(f"http://127.0.0.1:{health}/healthz", timeout=probed) as probe:
            assert probe.status == 200
        found = await asyncio.gather(*scrapes)
        assert set(found) <= {200, 503}
        assert found.count(200) >= RESPONSES_MOST
        assert counted.times - registered <= 1 + (loop.time() - began) / PAGE_SECONDS


async def test_the_page_needs_the_token() -> None:
    """The status of the verdict is the response's, with a challenge; probes need none."""

    async def access(header: str) -> int:
        return OK if header == "Bearer right" else UNAUTHENTICATED

    app = metrics_app(CollectorRegistry(), access)
    async with serve("127.0.0.1", 0, app) as port, aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{port}/metrics"
        async with session.get(url) as refused:
            assert (refused.status, refused.headers["WWW-Authenticate"]) == (401, "Bearer")
        async with session.get(url, headers={"Authorization": "Bearer right"}) as allowed:
            assert allowed.status == 200
