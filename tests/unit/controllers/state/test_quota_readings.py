"""What is left of a quota: the last readings, less the machines that they do not contain yet."""

from collections.abc import Mapping

import pytest

from cloudprovider.azure.quota import quota_of, quotas_left
from cloudprovider.interface import Offering, Usage
from controllers.model.facts import Offer
from controllers.state.quota import CURRENT_SECONDS, QuotaReadings
from controllers.state.unavailable_offerings import UnavailableOfferings

FAMILY, REGION = "Standard NCASv3_T4 Family", "westeurope"
T4 = Offering(size="Standard_NC4as_T4_v3")


def quota_readings() -> QuotaReadings:
    return QuotaReadings(
        UnavailableOfferings(lambda key: None),
        lambda usages, offering, requested, returned: quota_of(
            usages, offering, REGION, requested=requested, returned=returned
        ),
        lambda usages, names, requested: quotas_left(usages, names, REGION, requested=requested),
        wake=lambda key: None,
        begin=lambda: None,
    )


def used(cores: int, *, limit: int = 16) -> Mapping[str, Usage]:
    return {"standardncasv3_t4family": Usage(limit=limit, used=cores)}


def left(readings: QuotaReadings, now: float, coming: Mapping[str, Offering] | None = None) -> int:
    return readings.left((FAMILY,), coming or {}, now)[FAMILY].left


@pytest.mark.parametrize("allocated_after", [1, 61, 241])
def test_a_machine_counts_once_whenever_the_usages_contain_it(allocated_after: int) -> None:
    """From its PUT on four vCPUs less are left, whether Azure counts it at once, later, or when it runs."""
    readings = quota_readings()
    readings.read(used(0), 0, 0)
    assert left(readings, 1) == 16
    readings.requested("a", T4, 2)
    for now in range(3, 600, 60):
        assert left(readings, now) == 12
        if now > 240:
            readings.runs("a", now)
        readings.read(used(4 if now >= allocated_after else 0), now, now)
        assert left(readings, now) == 12


def test_a_refused_request_and_a_failed_machine_do_not_count() -> None:
    """Their quota is left for others at once."""
    readings = quota_readings()
    readings.read(used(0), 0, 0)
    readings.requested("a", T4, 1)
    readings.refused("a")
    assert left(readings, 2) == 16


def test_a_claim_counts_before_and_after_its_request_once() -> None:
    """As coming until its PUT, then as requested; its own request does not keep its offering from it."""
    readings = quota_readings()
    readings.read(used(12), 0, 0)
    assert left(readings, 1, {"a": T4}) == 0
    readings.requested("a", T4, 2)
    assert left(readings, 3, {"a": T4}) == 0
    assert readings.fitting("a", (T4,), 3) == (T4,)
    assert readings.fitting("b", (T4,), 3) == ()
    assert readings.obstacles(3)(T4).endswith("limit 16, used 16, needed 4")


def test_a_raised_limit_counts_at_once() -> None:
    """Also for the readings since before a request."""
    readings = quota_readings()
    readings.read(used(0), 0, 0)
    readings.requested("a", T4, 1)
    readings.read(used(0, limit=100), 60, 60)
    assert left(readings, 61) == 96


@pytest.mark.parametrize(
    ("limit", "cores", "waits", "expected"),
    [
        (16, 16, False, ""),
        (16, 12, False, ""),
        (12, 16, False, "limit 12, used 12, needed 4"),
        (4, 4, False, ""),
        (0, 4, False, "limit 0, used 0, needed 4"),
        (16, 16, True, "limit 16, used 16, needed 4"),
        (20, 16, True, ""),
        (0, 4, True, "limit 0, used 0, needed 4"),
    ],
)
def test_quota_that_a_deletion_returns(limit: int, cores: int, waits: bool, expected: str) -> None:
    """It is left for the next machine, unless the limit was lowered, or a claim waits for it already."""
    readings = quota_readings()
    readings.read(used(cores, limit=limit), 0, 0)
    if waits:
        offers = (Offer(offering=T4, available_in=60.0, failed=True, reason="QuotaExceeded"),)
        readings.applied("waits", offers, waits=True, now=1)
    found = readings.obstacle_after(T4, T4, 1)
    assert found.endswith(expected)
    assert bool(found) is bool(expected)
    assert readings.obstacle_after(T4, T4, CURRENT_SECONDS + 1) == ""


def test_quota_that_is_not_known_has_no_limit() -> None:
    """Neither without a reading, nor with an old one, nor for a quota that is not listed."""
    readings = quota_readings()
    assert readings.left((FAMILY,), {}, 1) == {}
    readings.read(used(0), 0, 0)
    assert readings.left(("cores",), {}, 1) == {}
    assert readings.left((FAMILY,), {}, CURRENT_SECONDS + 1) == {}
    assert readings.obstacles(CURRENT_SECONDS + 1)(T4) == ""
