"""All reasons of conditions and Events that the program defines.

Users match alerts and scripts on them, so their meaning does not change. For errors of ARM and AKS the reason is their
code, or the reason in the error table (`cloudprovider/azure/error_table.py`).

Source: docs/references/karpenter.md#conditions, docs/references/karpenter.md#events,
docs/references/kaito.md#what-azuregpu-provisioner-writes.
"""

# Ready, and conditions that are not determined yet
READY = "Ready"
AWAITING = "AwaitingReconciliation"
UNHEALTHY_DEPENDENTS = "UnhealthyDependents"
RECONCILING_DEPENDENTS = "ReconcilingDependents"

# Launched
LAUNCHED = "Launched"
CREATING = "Creating"
CREATE_FAILED = "CreateFailed"
POOL_DELETED = "PoolDeleted"
ADOPTION_REFUSED = "AdoptionRefused"
PREVIOUS_POOL_LEFT = "PreviousPoolLeft"
LEGACY_POOL_LEFT = "LegacyPoolLeft"
POOL_NAME_TAKEN = "PoolNameTaken"
LEFTOVER_NODE = "LeftoverNode"
CLUSTER_NOT_RUNNING = "ClusterNotRunning"
WRONG_CLUSTER = "WrongCluster"
POOL_LIMIT_REACHED = "PoolLimitReached"
NODE_LIMIT_REACHED = "NodeLimitReached"
CREATE_RATE_LIMITED = "CreateRateLimited"

# Launched: the AgentPoolNodeClass that the claim refers to
NODECLASS_NOT_FOUND = "NodeClassNotFound"
NODECLASS_TERMINATING = "NodeClassTerminating"
NODECLASS_NOT_READY = "NodeClassNotReady"
NODECLASS_READINESS_UNKNOWN = "NodeClassReadinessUnknown"
NODECLASS_CONTRADICTS_OFFERING = "NodeClassContradictsOffering"

# AgentPoolNodeClass and NodePool
VALIDATION_SUCCEEDED = "ValidationSucceeded"
NODECLASS_INVALID = "NodeClassValidationFailed"
NODECLASS_IN_USE = "WaitingForNodeClaims"
NODEPOOL_INVALID = "NodePoolValidationFailed"
OVERLAY_INVALID = "RuntimeValidation"
OVERLAY_CONFLICT = "Conflict"
NODECLASS_READY = "NodeClassReady"
REGISTRATION_HEALTHY = "NodeRegistrationHealthy"
REGISTRATION_FAILED = "RegistrationFailed"
AWAITING_REGISTRATION = "AwaitingRegistration"

# Launched, and an Event of any object that cannot be decoded
FIELD_UNREADABLE = "FieldUnreadable"

# Stalled
RECONCILE_FAILED = "ReconcileFailed"

# Launched: validation of the claim before a request
REQUIREMENTS_INVALID = "RequirementsInvalid"
INSTANCE_TYPE_MISSING = "InstanceTypeMissing"
INSTANCE_TYPE_INVALID = "InstanceTypeInvalid"
OPERATING_SYSTEM_INVALID = "OperatingSystemInvalid"
ZONE_INVALID = "ZoneInvalid"
CAPACITY_TYPE_INVALID = "CapacityTypeInvalid"
RESOURCE_QUANTITY_INVALID = "ResourceQuantityInvalid"
DISK_SIZE_INVALID = "DiskSizeInvalid"
IMAGE_FAMILY_INVALID = "ImageFamilyInvalid"
LABEL_REFUSED = "LabelRefused"
TAINT_INVALID = "TaintInvalid"

# Registered
REGISTERED = "Registered"
NODE_NOT_FOUND = "NodeNotFound"
MULTIPLE_NODES_FOUND = "MultipleNodesFound"
NODE_DELETING = "NodeDeleting"
NODE_UPDATE_REFUSED = "NodeUpdateRefused"
POOL_FAILED = "PoolFailed"

# Initialized
INITIALIZED = "Initialized"
NODE_INITIALIZING = "NodeInitializing"
STARTUP_TAINTS_EXIST = "StartupTaintsExist"
READINESS_TIMEOUT = "ReadinessTimeout"
STALE_CACHE_NODE = "StaleCacheNode"
KNOWN_EPHEMERAL_TAINTS_EXIST = "KnownEphemeralTaintsExist"
RESOURCE_NOT_REGISTERED = "ResourceNotRegistered"
GPU_COUNT_MISMATCH = "GPUCountMismatch"
GPU_UNAVAILABLE = "GPUUnavailable"
DRA_DRIVER_POOLS_NOT_PUBLISHED = "DRADriverPoolsNotPublished"
NODE_NOT_READY = "NodeNotReady"
NODE_LOST = "NodeLost"
SPOT_EVICTED = "SpotEvicted"

# Drained, VolumesDetached, InstanceTerminating
DRAINING = "Draining"
DRAINED = "Drained"
AWAITING_VOLUME_DETACHMENT = "AwaitingVolumeDetachment"
VOLUMES_DETACHED = "VolumesDetached"
TERMINATION_GRACE_PERIOD_ELAPSED = "TerminationGracePeriodElapsed"
INSTANCE_TERMINATING = "InstanceTerminating"
INSTANCE_TERMINATED = "InstanceTerminated"

# Drifted
NODEPOOL_DRIFTED = "NodePoolDrifted"
REQUIREMENTS_DRIFTED = "RequirementsDrifted"
INSTANCE_TYPE_NOT_FOUND = "InstanceTypeNotFound"
NODECLASS_DRIFT = "NodeClassDrift"
K8S_VERSION_DRIFT = "K8sVersionDrift"
IMAGE_DRIFT = "ImageDrift"
EXPIRED = "Expired"

# Consolidatable
CONSOLIDATABLE = "Consolidatable"

# Events only
NOMINATED = "Nominated"
FAILED_SCHEDULING = "FailedScheduling"
MACHINE_DOES_NOT_FIT = "MachineDoesNotFit"
NO_COMPATIBLE_INSTANCE_TYPES = "NoCompatibleInstanceTypes"
PRICE_UNKNOWN = "PriceUnknown"
NODECLAIMS_CREATED = "NodeClaimsCreated"
INSUFFICIENT_CAPACITY = "InsufficientCapacityError"
LAUNCH_FAILED = "LaunchFailed"
SCALED_DOWN = "ScaledDown"
DISRUPTION_LAUNCHING = "DisruptionLaunching"
DISRUPTION_WAITING_READINESS = "DisruptionWaitingReadiness"
UNCONSOLIDATABLE = "Unconsolidatable"
DISRUPTION_TERMINATING = "DisruptionTerminating"
DISRUPTION_BLOCKED = "DisruptionBlocked"
REPLACEMENT_FAILED = "ReplacementFailed"
TRYING_OFFERING = "TryingOffering"
REMOVING_FAILED_POOL = "RemovingFailedPool"
POOL_CHANGED = "PoolChanged"
NODE_REPAIR = "NodeRepair"
NODE_REPAIR_BLOCKED = "NodeRepairBlocked"
TWO_GPU_OWNERS = "TwoGPUOwners"
NODE_REPAIR_DRY_RUN = "NodeRepairDryRun"
NODE_HEALTHY = "NodeHealthy"
NODE_CONDITION_UNHEALTHY = "NodeConditionUnhealthy"
TERMINATE_NODE = "TerminateNode"
NODE_NOT_MANAGED = "NodeNotManaged"
REPAIR_SUSPENDED = "RepairSuspended"
UNEXPECTED_ADMISSION_ERROR = "UnexpectedAdmissionError"
FAILED_DRAINING = "FailedDraining"
EVICTED = "Evicted"
DISRUPTED = "Disrupted"
TERMINATION_GRACE_PERIOD_EXPIRING = "TerminationGracePeriodExpiring"
INVALID_TERMINATION_TIMESTAMP = "InvalidTerminationTimestamp"
INVALID_DO_NOT_DISRUPT = "InvalidDoNotDisruptAnnotation"
LEAKED_POOL_DELETED = "LeakedPoolDeleted"
INSTANCE_GONE = "InstanceGone"
NODE_DELETED = "NodeDeleted"
REMOVAL_RESTRICTED = "RemovalRestricted"
FINALIZER_REMOVED_MANUALLY = "FinalizerRemovedManually"
