"""Which NodeClaims count as going although the cache does not show it."""

import pytest

from controllers.reconcile.machines import UNANSWERED_SECONDS, Leaving
from tests.unit.builders import claim

PLAIN = claim()


def test_going_while_it_is_written() -> None:
    """What was written, or refused, is in the cache then."""
    leaving = Leaving(lambda: 0.0)
    with leaving.reserved([PLAIN]):
        assert PLAIN.uid in leaving
    assert PLAIN.uid not in leaving


def test_going_after_a_request_without_an_answer_until_the_cache_would_show_it() -> None:
    now = 0.0
    leaving = Leaving(lambda: now)
    with pytest.raises(TimeoutError), leaving.reserved([PLAIN]):
        raise TimeoutError
    now = UNANSWERED_SECONDS - 1
    assert PLAIN.uid in leaving
    now = UNANSWERED_SECONDS
    assert PLAIN.uid not in leaving
