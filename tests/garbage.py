"""Garbage collection in processes that run many simulations."""

import gc

# Of the container objects that a run allocates, few are in cycles; by default each 700 new ones start a collection.
YOUNG_OBJECTS = 10_000


def collect_seldom() -> None:
    """Exclude what exists from all later collections, and collect after `YOUNG_OBJECTS` new objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)
