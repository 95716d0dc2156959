"""Dashboards and alerts as typed Python, from which the chart's files are written.

promql.py     expressions that several need           panels.py     what a dashboard is made of, as Grafana's JSON
fleet         the dashboard of the whole fleet        claim.py      the dashboard of one claim
alerts.py     for what people are called              records.py    what alerts share: recording rules
rules.py      the rules file that Prometheus reads    variables.py  what people choose above a dashboard
queries.py    every expression, read back from the files, for tests and pictures
picture.py    a dashboard drawn from what a real Prometheus answers, panel by panel (drawing.py)
"""
