"""Dashboards and alerts as typed Python, from which the chart's files are written.

promql.py    expressions that several need          panels.py   what a dashboard is made of, as Grafana's JSON
fleet.py     the dashboard of the whole fleet       claim.py    the dashboard of one claim
alerts.py    alerts and recording rules             rules.py    the rules file that Prometheus reads
queries.py   every expression, read back from the files, for tests and pictures
picture.py   a dashboard drawn from what a real Prometheus answers
"""
