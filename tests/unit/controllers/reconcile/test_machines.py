"""Which NodeClaims count as going although the cache does not show it yet, as a table."""

import msgspec
import pytest

from controllers.reconcile.claim_creator import OWN_WRITE_SECONDS
from controllers.reconcile.machines import RESERVED_SECONDS, Leaving
from provisioner.api.conditions import DISRUPTION_REASON
from provisioner.api.meta import Condition
from provisioner.api.nodeclaim import NodeClaim
from tests.unit.builders import NOW, claim

PLAIN = claim()
DELETING = claim(deleting=True)


def disrupted(status: str) -> NodeClaim:
    condition = Condition(type=DISRUPTION_REASON, status=status, last_transition_time=NOW)
    return msgspec.structs.replace(PLAIN, status=msgspec.structs.replace(PLAIN.status, conditions=(condition,)))


@pytest.mark.parametrize(
    ("old", "new", "remembered"),
    [
        (PLAIN, PLAIN, True),
        (None, PLAIN, True),
        (PLAIN, disrupted("False"), True),
        (PLAIN, disrupted("True"), False),
        (PLAIN, DELETING, False),
        (PLAIN, None, False),
    ],
)
def test_remembered_until_the_cache_shows_it(old: NodeClaim | None, new: NodeClaim | None, remembered: bool) -> None:
    leaving = Leaving(lambda: 0.0)
    leaving.reserve([PLAIN])
    leaving.claim_changed(old, new)
    assert (PLAIN.uid in leaving) is remembered


def test_a_release_ends_the_reservation() -> None:
    leaving = Leaving(lambda: 0.0)
    leaving.reserve([PLAIN])
    leaving.release([PLAIN])
    assert PLAIN.uid not in leaving


def test_a_reservation_ends_although_the_cache_never_shows_it() -> None:
    """The command was undone, and the cache, which was behind, has only seen the end."""
    now = 0.0
    leaving = Leaving(lambda: now)
    leaving.reserve([PLAIN])
    leaving.claim_changed(PLAIN, PLAIN)
    now = RESERVED_SECONDS - 1
    assert PLAIN.uid in leaving
    now = RESERVED_SECONDS
    assert PLAIN.uid not in leaving


def test_after_a_failed_request_it_is_remembered_until_the_cache_must_show_it() -> None:
    """It may have taken effect; what was not reserved is not remembered."""
    now = 0.0
    leaving = Leaving(lambda: now)
    leaving.failed([PLAIN])
    assert PLAIN.uid not in leaving
    leaving.reserve([PLAIN])
    leaving.failed([PLAIN])
    now = OWN_WRITE_SECONDS - 1
    assert PLAIN.uid in leaving
    now = OWN_WRITE_SECONDS
    assert PLAIN.uid not in leaving
