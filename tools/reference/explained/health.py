"""Reasons of NodeHealthy, and of Initialized for the same cause."""

from provisioner.api import reasons as r
from provisioner.api.conditions import INITIALIZED, NODE_HEALTHY

from .row import is_false, is_true

HEALTH = (
    is_true(
        NODE_HEALTHY, r.NODE_HEALTHY, "The Node had conditions that are signals of the repair policy, and has none now."
    ),
    is_false(
        NODE_HEALTHY,
        r.NODE_CONDITION_UNHEALTHY,
        "The Node has conditions that are signals of the repair policy. The message names them, and what follows.",
        "`kubectl describe node NODE`: the reason and the message of the condition are those of the agent that set it.",
        "None: the machine is replaced if the policy says so. `settings.repairPolicies` changes the policy.",
    ),
    is_false(
        INITIALIZED,
        r.NODE_CONDITION_UNHEALTHY,
        "The machine is about to be replaced because of conditions of its Node, which the message names.",
        "`kubectl describe node NODE`.",
        "None: the NodeClaim is deleted, and its owner creates a new one.",
    ),
    is_false(
        NODE_HEALTHY,
        r.REPAIR_SUSPENDED,
        "Two machines of this size and node image were replaced because they failed in the same way within an hour,"
        " and no such machine was usable since; or four of one owner, one after the other, at any age. This one"
        " is kept, and so is the next one: another machine would fail as well.",
        "The message contains the size and the image: inspect the machine, and compare with machines of another image.",
        "Let new agent pools get another node image or size, and delete the NodeClaim; or annotate it"
        " `gpu-provisioner.sh/repair` with the time until which it may be replaced, at most a day ahead.",
    ),
)
