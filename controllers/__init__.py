"""The rules: one key, one truth. All about one machine is decided in one pass (`plan.py`)."""
