"""Grafana dashboards and Prometheus rules, defined in Python; `make generate` writes them into the chart.

fleet, claim.py    the two dashboards           panels.py     dashboard model and its JSON rendering
alerts.py          alerting rules               records.py    recording rules
promql.py          shared PromQL expressions    variables.py  dashboard variables
rules.py           rendering of the rules file  queries.py    expressions of the rendered files, for tests
colors.py          colors of series by meaning
"""
