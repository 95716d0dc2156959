"""The permissions of our role in Azure, from the chart's file, and the ones that were used, from the audit log.

Actions are written as in ARM. Every simulation uses this role (`harness.py`, `realworld.py`), and the simulated ARM
refuses everything else; commands of users may read more than the controller.
"""

import json
from pathlib import Path

from provisioner.simulator.azure.compute import VERBS
from provisioner.simulator.azure.request_log import RequestLog
from provisioner.simulator.azure.routing import ACTIONS

CHART = Path(__file__).parents[2] / "charts" / "gpu-provisioner"
ROLE_FILE = CHART / "azure-role.json"
AZURE_ACTIONS = frozenset[str](json.loads(ROLE_FILE.read_text(encoding="utf-8"))["Actions"])
# The optional role for the quota of the subscription.
QUOTA_ACTIONS = frozenset[str](json.loads((CHART / "azure-quota-role.json").read_text(encoding="utf-8"))["Actions"])
# The permissions of a Reader of the subscription that `check` and `values` use.
READER_ACTIONS = frozenset(ACTIONS[verb] for verb in VERBS)


def used_actions(request_log: RequestLog) -> frozenset[str]:
    """The permissions that the recorded requests needed; an operation's URL needs one of its own."""
    return frozenset(ACTIONS[verb] for verb in request_log.counts if verb in ACTIONS)
