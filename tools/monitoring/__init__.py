"""The controller, scraped by a real Prometheus during a scripted scenario; for tests of dashboards and rules."""
