"""Colors of series by their meaning, the same in all panels.

Green is ready or done, red has failed, blue is in progress, purple is being removed, orange and yellow need attention.

A mapping goes from a regular expression on the series' name to its color; the last match applies. Several series of one
expression get shades of its color.
"""

from collections.abc import Mapping
from typing import Literal

Color = Literal["green", "yellow", "orange", "red", "blue", "purple", "text"]
Colors = Mapping[str, Color]

PHASES: Colors = {
    "Pending|Launching|Launched|Registering|Registered|Initializing|Initialized": "blue",
    "Draining|Detaching|InstanceTerminating|Terminated": "purple",
    "Ready": "green",
    "NotReady": "orange",
    "Failed": "red",
}
POOL_STATES: Colors = {
    "creating": "blue",
    "running": "green",
    "deleting": "purple",
    "failed": "red",
    "unknown": "orange",
    "foreign": "text",
}
GPUS: Colors = {"expected": "blue", "allocatable": "green", "requested": "purple"}
PODS: Colors = {"pending": "blue", "unschedulable": "red", "ignored": "text"}
STATUSES: Colors = {".* True": "green", ".* Unknown": "yellow", ".* False": "red"}
# Of HTTP, at the end of the name. A 404 proves an absence, a 409 and a 412 are retried.
CODES: Colors = {
    "(.* )?2..": "green",
    "(.* )?[45]..": "red",
    "(.* )?(404|409|412)": "blue",
    "(.* )?429": "orange",
}
RESULTS: Colors = {
    ".* (success|succeeded)": "green",
    ".* (requeue|requeue_after)": "blue",
    ".* (error|failed)": "red",
}
FAILURES: Colors = {".*": "red"}
