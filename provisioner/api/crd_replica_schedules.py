"""The schema of the schedules of static NodePools, in the CRD of AgentPoolNodeClass."""

from .cron import CHARACTERS, MACROS
from .nodeclass import REPLICA_SCHEDULES_MAX, TIME_ZONE_CHARACTERS
from .schema import Schema, atomic_list, structure, text

SCHEDULE = rf"^({'|'.join(MACROS)}|\S+(\s+\S+){{4}})$"
DURATION = "^([0-9]+h)?([0-9]+m)?(0s)?$"
TIME_ZONE = "^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$"
REPLICAS_MAX = 2**31 - 1


def replica_schedules() -> Schema:
    """The list of schedules."""
    schedule = structure(
        "At most so many machines during a recurring time.",
        {
            "duration": text(
                "How long the schedule is active after each of its times, in hours and minutes, such as 10h or 1h30m.",
                minLength=2,
                maxLength=CHARACTERS,
                pattern=DURATION,
            ),
            "replicas": {
                "description": "How many NodeClaims a static NodePool has at most meanwhile.",
                "type": "integer",
                "format": "int32",
                "default": 0,
                "minimum": 0,
                "maximum": REPLICAS_MAX,
            },
            "schedule": text(
                "When it becomes active: five fields of cron, or a macro such as @daily.",
                maxLength=CHARACTERS,
                pattern=SCHEDULE,
            ),
            "timeZone": text(
                "The time zone of the schedule, a name of the IANA database such as Europe/Berlin.",
                default="UTC",
                minLength=1,
                maxLength=TIME_ZONE_CHARACTERS,
                pattern=TIME_ZONE,
            ),
        },
        required=["duration", "schedule"],
    )
    return atomic_list(
        "When static NodePools with this node class have fewer machines than spec.replicas, for example none at night."
        " Machines with the annotation karpenter.sh/do-not-disrupt, or pods that have it, stay. An edit concerns"
        " machines that exist.",
        schedule,
        maxItems=REPLICA_SCHEDULES_MAX,
    )
