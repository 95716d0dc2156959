"""The resources by which NVSentinel requests maintenance of a machine, as this controller answers them.

Source: docs/references/kubernetes.md#nvsentinel.
"""

from .meta import Struct


class NVSentinel(Struct, frozen=True, kw_only=True):
    """`…_condition_type`: the condition that NVSentinel reads as `completeConditionType`.

    `reboot_resource` "": RebootNodes are left to another controller.
    """

    group: str = "janitor.dgxc.nvidia.com"
    version: str = "v1alpha1"
    terminate_resource: str = "terminatenodes"
    terminate_condition_type: str = "NodeTerminated"
    reboot_resource: str = "rebootnodes"
    reboot_condition_type: str = "NodeReady"
