"""The outputs of `try`: lines, a live table on a terminal, and records for programs."""
