"""The real Prometheus beside the real program, for tests of dashboards and rules."""
