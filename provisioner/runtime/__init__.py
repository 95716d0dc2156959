"""A controller runtime: reflectors, work queue, controllers, leader election, events, logs and metrics."""
