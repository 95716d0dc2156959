"""Karpenter's test suites as tables: one file for each of its files, one row for each of its tests."""
