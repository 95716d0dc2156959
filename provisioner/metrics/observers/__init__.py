"""Observers that fill the metric families from caches, cache changes and results of steps.

No decision depends on them, and their errors do not fail a reconcile.
"""
