"""What our role in Azure allows, and what of it was used: from the chart's file and the emulator's ledger.

Actions are written as ARM writes them. Every simulation uses this role (`harness.py`, `realworld.py`), and
the emulator refuses everything else; a person's commands may read besides what the controller never requests.
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
# What a Reader of the subscription may, of that which `check` and `values` look at.
READER_ACTIONS = frozenset(ACTIONS[verb] for verb in VERBS)


def used_actions(request_log: RequestLog) -> frozenset[str]:
    """What the calls that arrived needed; an operation's URL is its own permission."""
    return frozenset(ACTIONS[verb] for verb in request_log.counts if verb in ACTIONS)
