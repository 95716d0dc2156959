"""Retail prices that the controller reads: what is bought and replaced by them, and what happens while reads fail."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

import cloudprovider.prices
from provisioner.api import labels
from tests.retail_api import Item, RetailApi, item
from tests.world.commands import WHO, check, cost
from tests.world.demand import T4, claims_of, node_class, node_pool, pending, pod, workload
from tests.world.disruption.common import disruption, running, sizes
from tests.world.harness import Json, Sim, simulated
from tests.world.metric_samples import Numbers
from tests.world.program import PRICES_HOST
from tests.world.transcript import FAST, refuse

pytestmark = pytest.mark.matrix(quick=0)

REGION = "westeurope"
LEASES = "leases.coordination.k8s.io"
HOUR = 3600.0
# In place of 12 hours: each hour costs a second of the test.
READ_SECONDS = 900.0
FAILURES = "gpu_provisioner_retail_price_failures_total"
COUNT = "gpu_provisioner_retail_prices"
T4_8 = "Standard_NC8as_T4_v3"
# The same GPU with more CPUs, for less than the list price of the smaller size.
CHEAP = item(T4_8, REGION, 0.2)


@asynccontextmanager
async def prices(sim: Sim, *items: Item) -> AsyncIterator[RetailApi]:
    """The retail price API with these rows, on the network of the simulation."""
    api = RetailApi(items)
    api.origin = f"http://{PRICES_HOST}"
    runner = web.AppRunner(api.app)
    await runner.setup()
    assert runner.server is not None
    sim.network.servers[PRICES_HOST] = runner.server
    try:
        yield api
    finally:
        await runner.cleanup()


def bought(sim: Sim) -> list[str]:
    return [put.properties["vmSize"] for put in sim.cloud.request_log.puts]


def stated(sim: Sim) -> str:
    """What the Lease has of retail prices."""
    lease = sim.store.get(LEASES, "gpu-provisioner", "kube-system")
    annotations = lease["metadata"].get("annotations") if lease is not None else None
    return (annotations or {}).get(labels.RETAIL_PRICES, "")


def value(numbers: Numbers, name: str, **wanted: str) -> float:
    return sum(one.value for one in numbers.samples(name, **wanted))


async def pools(sim: Sim, *requirements: Json, after: str = "Never") -> None:
    """A NodePool of one T4 whose machines are consolidated `after` so long."""
    await sim.apply(node_class())
    consolidation = {**disruption(after), "consolidationPolicy": "WhenEmptyOrUnderutilized"}
    await sim.apply(node_pool(requirements=[*sizes(T4, T4_8), *requirements], disruption=consolidation))


@simulated(azure=FAST)
async def test_a_price_that_is_read_decides(sim: Sim) -> None:
    """Nothing waits for it: the first machine has the list price. The next leader has the same prices, unread."""
    numbers = Numbers()
    async with prices(sim, CHEAP, item(T4_8, REGION, 0.1, suffix=" Spot")):
        sim.network.refuse(PRICES_HOST)
        await pools(sim)
        await sim.start_controller(retail_prices=True, metrics=numbers.metrics)
        await pending(sim, pod("first"))
        await sim.until(lambda: bought(sim) == [T4], 60.0, "the smaller size is bought at its list price")
        await asyncio.sleep(60)
        assert (value(numbers, FAILURES, reason="network"), stated(sim)) == (1, "")
        sim.network.refuse(PRICES_HOST, on=False)
        await sim.until(lambda: stated(sim) != "", HOUR + 60.0, "the prices are read")
        assert (value(numbers, COUNT, capacity_type="on-demand"), value(numbers, COUNT, capacity_type="spot")) == (1, 1)
        await pending(sim, pod("second"))
        await sim.until(lambda: bought(sim) == [T4, T4_8], 60.0, "the larger size is bought")
        sim.network.refuse(PRICES_HOST)
        sim.crash()
        await sim.start_controller("ctl1", retail_prices=True)
        await pending(sim, pod("third"))
        await sim.until(lambda: bought(sim) == [T4, T4_8, T4_8], 120.0, "the next leader buys the larger size, too")
        ended = await cost(sim)
        assert "Prices: retail prices of westeurope, read 2026-03-01T13:" in ended.out
        assert "sizes without one: list of 2026-06-18" in ended.out
        await sim.stop_controller("ctl1")
        await sim.start_controller("ctl2")
        await sim.until(lambda: stated(sim) == "", 120.0, "without the setting the prices are removed")
        await pending(sim, pod("fourth"))
        await sim.until(lambda: bought(sim)[3:] == [T4], 60.0, "the list price counts again")
    ended = await cost(sim)
    assert "Prices: list prices of westeurope, 2026-06-18\n" in ended.out
    refuse(sim, lambda call: (call.who, call.target.kind) == (WHO, "leases"), 403, "Forbidden", "leases is forbidden")
    assert "Retail prices, which the controller may use, are not known:" in (await cost(sim)).out


@simulated(azure=FAST)
async def test_the_check_of_prices(sim: Sim) -> None:
    """It reads them once; a read that fails is no failure of the controller. Without the setting it reads none."""
    async with prices(sim, CHEAP):
        found = (await check(sim, retail_prices=True)).out
        assert "1 on demand and 0 of spot in westeurope, 0 unusable rows" in found
        sim.network.refuse(PRICES_HOST)
        ended = await check(sim, retail_prices=True)
        assert "failed to read them, the last prices stay in use: connection failed" in ended.out
        assert "settings.retailPrices" in ended.out
        assert "retail" not in (await check(sim)).out


@simulated(azure=FAST)
async def test_stated_prices_replace_it(sim: Sim) -> None:
    """`--prices` before the retail price, a NodeOverlay before both."""
    overlay = {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "t4"},
        "spec": {"requirements": sizes(T4), "price": "0.01"},
    }
    async with prices(sim, CHEAP):
        await pools(sim)
        await sim.start_controller(retail_prices=True, prices=[(T4_8, 0.9)])
        await sim.until(lambda: stated(sim) != "", 60.0, "the prices are read")
        await pending(sim, pod("first"))
        await sim.until(lambda: bought(sim) == [T4], 60.0, "--prices makes the larger size dearer")
        await sim.stop_controller()
        await sim.start_controller("ctl1", retail_prices=True)
        await pending(sim, pod("second"))
        await sim.until(lambda: bought(sim) == [T4, T4_8], 120.0, "the retail price counts")
        await sim.apply(overlay)
        await asyncio.sleep(30)
        await pending(sim, pod("third"))
        await sim.until(lambda: bought(sim) == [T4, T4_8, T4], 60.0, "the overlay counts")


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prices are read every quarter of an hour."""
    monkeypatch.setattr(cloudprovider.prices, "READ_SECONDS", READ_SECONDS)


@pytest.mark.usefixtures("often")
@simulated(azure=FAST)
async def test_what_a_changed_price_replaces(sim: Sim) -> None:
    """Consolidation replaces a machine once, by its own rules; failed reads and equal prices replace nothing."""
    async with prices(sim, item(T4_8, REGION, 4.0)) as api:
        await pools(sim, after="30s")
        await sim.start_controller(retail_prices=True)
        workload(sim, "ReplicaSet", "train")
        await sim.until(lambda: running(sim) == 1, 1800.0, "the pod runs")
        await asyncio.sleep(2 * READ_SECONDS)
        assert bought(sim) == [T4]
        api.items = [CHEAP]
        await sim.until(lambda: bought(sim) == [T4, T4_8], READ_SECONDS + 600.0, "a cheaper machine is bought")
        await sim.until(lambda: len(claims_of(sim)) == running(sim) == 1, HOUR, "the old machine is gone")
        reads = len(api.seen)
        sim.network.refuse(PRICES_HOST)
        await asyncio.sleep(2 * HOUR + READ_SECONDS)
        sim.network.refuse(PRICES_HOST, on=False)
        await asyncio.sleep(HOUR + 2 * READ_SECONDS)
        assert len(api.seen) > reads
        assert bought(sim) == [T4, T4_8]


@pytest.mark.usefixtures("often")
@simulated(azure=FAST)
async def test_spot_machines_are_not_moved(sim: Sim) -> None:
    """Prices of spot that change with each read buy the cheaper size, and replace no machine."""
    spot = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["spot"]}
    tolerates = [{"operator": "Exists"}]
    async with prices(sim) as api:

        def now(t4: float, a100: float) -> None:
            on_demand = item(T4, REGION, 5.0), item(T4_8, REGION, 5.0)
            api.items = [*on_demand, item(T4, REGION, t4, suffix=" Spot"), item(T4_8, REGION, a100, suffix=" Spot")]

        now(0.1, 0.5)
        await pools(sim, spot, after="30s")
        await sim.start_controller(retail_prices=True)
        await sim.until(lambda: stated(sim) != "", 60.0, "the prices are read")
        await pending(sim, pod("first", tolerations=tolerates))
        await sim.until(lambda: running(sim) == 1, 1800.0, "the pod runs")
        for t4, a100 in ((0.5, 0.1), (0.1, 0.5), (0.5, 0.1)):
            now(t4, a100)
            await asyncio.sleep(READ_SECONDS)
        assert bought(sim) == [T4]
        await pending(sim, pod("second", tolerations=tolerates))
        await sim.until(lambda: bought(sim) == [T4, T4_8], 60.0, "the cheaper size is bought")
