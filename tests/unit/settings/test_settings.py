"""Settings are read from flags, environment, file and defaults, validated together, and shown without secrets."""

import re

import msgspec
import pytest

from controllers.model.policy import Policy
from provisioner.operator.config import policy_from
from provisioner.settings import BY_FLAG, IGNORED, OPTIONS, Settings, SettingsError, load, load_all

from .loading import ENV, SUBSCRIPTION, errors, loaded, the_error

# --- the table -------------------------------------------------------------------------------------------------------


def test_every_field_is_one_setting() -> None:
    """Without a row, a field could not be set."""
    derived = {"azure_cli", "warnings", "notes", "origins"}
    assert sorted(option.field for option in OPTIONS) == sorted({*Settings.__struct_fields__} - derived)


def test_the_rules_have_the_defaults_of_the_program() -> None:
    """And each setting that they read."""
    given = loaded(INITIALIZATION_DEADLINE="7m", REPAIR_DRY_RUN="true", MAX_CREATES_PER_MINUTE="5")
    changed = msgspec.structs.replace(
        Policy(), initialization_seconds=420.0, repair_dry_run=True, max_creates_per_minute=5
    )
    assert (policy_from(loaded()), policy_from(given)) == (Policy(), changed)


def test_names_are_unique() -> None:
    """Flags and environment variables of all options, ignored ones included."""
    rows = (*OPTIONS, *IGNORED)
    assert len(BY_FLAG) == len(rows)
    names = [name for option in rows for name in option.env]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("env", "flag"),
    [
        ("METRICS_PORT", "metrics-port"),
        ("HEALTH_PROBE_PORT", "health-probe-port"),
        ("KUBE_CLIENT_QPS", "kube-client-qps"),
        ("KUBE_CLIENT_BURST", "kube-client-burst"),
        ("ENABLE_PROFILING", "enable-profiling"),
        ("DISABLE_LEADER_ELECTION", "disable-leader-election"),
        ("LEADER_ELECTION_NAME", "leader-election-name"),
        ("LEADER_ELECTION_NAMESPACE", "leader-election-namespace"),
        ("KARPENTER_SERVICE", "karpenter-service"),
        ("DISABLE_CLUSTER_STATE_OBSERVABILITY", "disable-cluster-state-observability"),
        ("MEMORY_LIMIT", "memory-limit"),
        ("CPU_REQUESTS", "cpu-requests"),
        ("LOG_LEVEL", "log-level"),
        ("LOG_OUTPUT_PATHS", "log-output-paths"),
        ("LOG_ERROR_OUTPUT_PATHS", "log-error-output-paths"),
        ("BATCH_MAX_DURATION", "batch-max-duration"),
        ("BATCH_IDLE_DURATION", "batch-idle-duration"),
        ("PREFERENCE_POLICY", "preference-policy"),
        ("MIN_VALUES_POLICY", "min-values-policy"),
        ("IGNORE_DRA_REQUESTS", "ignore-dra-requests"),
        ("FEATURE_GATES", "feature-gates"),
        ("DISABLE_CONTROLLER_WARMUP", "disable-controller-warmup"),
        ("SCHEDULER_CONFIG", "scheduler-config"),
    ],
)
def test_karpenters_options_are_accepted(env: str, flag: str) -> None:
    """Each flag of Karpenter has the same environment variable."""
    assert BY_FLAG[flag].env[0] == env


def test_the_environment_of_azure_gpu_provisioner_is_sufficient() -> None:
    """The variables of workload identity and of its chart; all other settings have the documented defaults."""
    settings = loaded()
    assert settings.warnings == ()
    assert settings.notes == ()
    assert (settings.subscription_id, settings.resource_group, settings.cluster_name) == (SUBSCRIPTION, "rg-1", "aks-1")
    assert settings.location == ""
    assert settings.authority_host == "https://login.microsoftonline.com"
    assert settings.arm_scope == "https://management.azure.com/.default"
    assert (settings.metrics_port, settings.health_probe_port) == (8080, 8081)
    assert settings.disable_leader_election is False
    assert settings.leader_election_name == "gpu-provisioner-leader-election"
    assert (settings.gpu_readiness, settings.legacy_pools) == ("require", "collect")
    assert (settings.max_agent_pools, settings.max_creates_per_minute) == (None, 100)
    assert settings.node_repair
    assert (settings.launch_seconds, settings.creating_seconds, settings.registration_seconds) == (300, 2700, 900)
    assert (settings.initialization_seconds, settings.draining_seconds) == (1200, 900)
    assert (settings.detaching_seconds, settings.deleting_seconds) == (360, 1800)


# --- precedence ------------------------------------------------------------------------------------------------------


def test_flag_takes_precedence_over_environment_file_and_default() -> None:
    """`origins` names the source of the value."""
    flag, env, file = {"metrics-port": "1"}, {"METRICS_PORT": "2"}, {"metrics-port": 3}
    for settings, port, origin in [
        (loaded(flag, file, **env), 1, "flag --metrics-port"),
        (loaded({}, file, **env), 2, "env METRICS_PORT"),
        (loaded({}, file), 3, "file metrics-port"),
        (loaded(), 8080, "default"),
    ]:
        assert (settings.metrics_port, dict(settings.origins)["metrics_port"]) == (port, origin)


def test_an_empty_variable_is_unset() -> None:
    """Charts render unset values as empty variables."""
    settings = loaded(METRICS_PORT="", LOG_LEVEL=" ", LEADER_ELECTION_NAMESPACE="", DEPLOYMENT_MODE="", HTTPS_PROXY="")
    assert settings.metrics_port == 8080
    assert settings.log_level == "info"
    assert settings.deployment_mode == "self-hosted"
    assert settings.warnings == ()


def test_an_empty_flag_overrides_a_variable_with_the_default() -> None:
    """Unlike an empty environment variable."""
    assert (
        loaded({"leader-election-namespace": ""}, LEADER_ELECTION_NAMESPACE="kube-system").leader_election_namespace
        == ""
    )


@pytest.mark.parametrize(
    ("name", "alias", "field"),
    [
        ("ARM_SUBSCRIPTION_ID", "AZURE_SUBSCRIPTION_ID", "subscription_id"),
        ("ARM_RESOURCE_GROUP", "AZURE_RESOURCE_GROUP", "resource_group"),
        ("AZURE_CLUSTER_NAME", "CLUSTER_NAME", "cluster_name"),
        ("HTTPS_PROXY", "https_proxy", "https_proxy"),
        ("NO_PROXY", "no_proxy", "no_proxy"),
    ],
)
def test_aliases_of_variables_are_read(name: str, alias: str, field: str) -> None:
    """The main name takes precedence, with a warning if the values differ."""
    first, second = ("http://a", "http://b") if "PROXY" in name else (SUBSCRIPTION, SUBSCRIPTION[::-1])
    without = {key: value for key, value in ENV.items() if key != name}
    assert getattr(load({}, {**without, alias: second}, None), field) == second
    both = load({}, {**without, name: first, alias: second}, None)
    assert getattr(both, field) == first
    assert both.warnings == (f"{name} and {alias} have different values; using {name}",)


def test_white_space_is_removed() -> None:
    """For example the newline at the end of a mounted secret."""
    settings = loaded(ARM_RESOURCE_GROUP=" rg-2\n", LOCATION="East US")
    assert (settings.resource_group, settings.location) == ("rg-2", "eastus")


def test_the_file_can_use_yaml_types() -> None:
    """Numbers, booleans, lists and a map of feature gates; null means unset."""
    settings = loaded(
        file={
            "metrics-port": 9090,
            "disable-leader-election": True,
            "no-proxy": ["10.0.0.0/8", ".svc"],
            "feature-gates": {"NodeRepair": False},
            "creating-deadline": "1h",
            "location": None,
        }
    )
    assert settings.metrics_port == 9090
    assert settings.disable_leader_election is True
    assert settings.no_proxy == "10.0.0.0/8,.svc"
    assert settings.feature_gates == (("NodeRepair", False),)
    assert settings.creating_seconds == 3600


def test_unknown_keys_and_flags_are_reported_without_their_values() -> None:
    """The value may be a secret."""
    found = errors({"metric-port": "hunter2"}, {"client-secret": "hunter2"})
    assert [e.field for e in found] == ["client-secret", "--metric-port"]
    assert "hunter2" not in str(SettingsError(found))


def test_a_map_as_a_value_is_rejected() -> None:
    assert the_error(file={"metrics-port": {"value": 1}}).field == "metrics-port"


# --- missing and invalid values --------------------------------------------------------------------------------------


def test_all_missing_settings_are_reported_with_a_remedy() -> None:
    with pytest.raises(SettingsError) as refusal:
        load({}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, None)
    found = refusal.value.errors
    assert [e.field for e in found] == [
        "ARM_SUBSCRIPTION_ID",
        "ARM_RESOURCE_GROUP",
        "AZURE_CLUSTER_NAME",
        "AZURE_TENANT_ID",
        "AZURE_CLIENT_ID",
        "AZURE_FEDERATED_TOKEN_FILE",
    ]
    assert all(e.message == "it is not set" and e.remedy.endswith(".") for e in found)
    text = str(refusal.value)
    assert text.startswith("6 settings are invalid:\n")
    assert "az account show" in text
    assert "azure.workload.identity/use=true" in text


def test_managed_mode_requires_no_identity_variables() -> None:
    """It uses the default credential chain of azure-identity."""
    needed = {key: value for key, value in ENV.items() if key.startswith("ARM_") or key == "AZURE_CLUSTER_NAME"}
    assert load({}, {**needed, "DEPLOYMENT_MODE": "Managed"}, None).deployment_mode == "managed"


@pytest.mark.parametrize(
    ("env", "own_login"),
    [
        ({}, True),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "DEPLOYMENT_MODE": "managed"}, False),
        ({"DEPLOYMENT_MODE": "managed"}, False),
        ({"ARM_ENDPOINT": "http://127.0.0.1:8443"}, False),
    ],
)
def test_outside_a_pod_the_users_own_login_is_the_default(env: dict[str, str], own_login: bool) -> None:
    """No identity is required then; in a Pod, or with a deployment mode, nothing changes."""
    needed = {key: value for key, value in ENV.items() if key.startswith("ARM_") or key == "AZURE_CLUSTER_NAME"}
    assert load({}, {**needed, **env}, None).azure_cli is own_login


def test_a_token_file_names_the_workload_identity_outside_a_pod_too() -> None:
    assert not load({}, {**ENV, "KUBERNETES_SERVICE_HOST": ""}, None).azure_cli


def test_a_simulator_on_loopback_requires_no_identity_variables() -> None:
    """Requests over plain HTTP have no token."""
    needed = {key: value for key, value in ENV.items() if key.startswith("ARM_") or key == "AZURE_CLUSTER_NAME"}
    settings = load({}, {**needed, "ARM_ENDPOINT": "http://127.0.0.1:8443/"}, None)
    assert settings.plain_arm
    assert settings.arm_endpoint == "http://127.0.0.1:8443"
    assert settings.warnings == (
        "ARM_ENDPOINT uses http on loopback (127.0.0.1): requests have no token; for simulations only",
    )


def test_an_invalid_setting_is_not_reported_as_missing() -> None:
    found = the_error(ARM_RESOURCE_GROUP="/subscriptions/x/resourceGroups/y")
    assert found.field == "ARM_RESOURCE_GROUP"
    assert "resource group" in found.remedy


@pytest.mark.parametrize(
    ("name", "text", "remedy"),
    [
        ("ARM_SUBSCRIPTION_ID", "my subscription", "an ID"),
        ("AZURE_CLUSTER_NAME", "-aks", "AKS cluster"),
        ("LEADER_ELECTION_NAME", "Upper_Case", "Kubernetes name"),
        ("LOCATION", "east/us", "eastus"),
        ("DEPLOYMENT_MODE", "serverless", "self-hosted, managed"),
        ("LOG_LEVEL", "chatty", "debug, info, warning, error"),
        ("GPU_READINESS", "maybe", "require, report"),
        ("LEGACY_POOLS", "delete", "collect, report"),
        ("AZURE_ENVIRONMENT", "AzureGermanCloud", "AzureUSGovernment"),
        ("METRICS_PORT", "65536", "from 0 to 65535"),
        ("METRICS_PORT", "-1", "from 0 to 65535"),
        ("MAX_AGENT_POOLS", "0", "from 1"),
        ("MAX_CREATES_PER_MINUTE", "-5", "from 1"),
        ("ARM_SHARE", "0", "from 0.001 to 1"),
        ("ARM_SHARE", "20", "such as 0.05"),
        ("CREATING_DEADLINE", "0", "at most 7 days"),
        ("CREATING_DEADLINE", "-5m", "at most 7 days"),
        ("CREATING_DEADLINE", "300h", "at most 7 days"),
        ("FEATURE_GATES", "NodeRepair", "NodeRepair=true"),
        ("PRICES", "Standard_NC24ads_A100_v4", "_v4=3.67"),
        ("PRICES", "Standard_NC24ads_A100_v4=cheap", "_v4=3.67"),
        ("PRICES", "Standard_NC24ads_A100_v4/Spot=1", "_v4/spot=1.47"),
        ("REPAIR_POLICIES", "GpuGone", "signal: GpuGone"),
        ("REPAIR_POLICIES", '[{"toleration": "5m", "action": "Wait"}]', "signal: GpuGone"),
        ("FEATURE_GATES", "NodeRepair=yes", "NodeRepair=true"),
        ("ARM_ENDPOINT", "management.azure.com", "https://"),
        ("ARM_ENDPOINT", "http://management.azure.com", "https://"),
        ("ARM_ENDPOINT", "http://10.0.0.1", "https://"),
        ("ARM_ENDPOINT", "http://127.0.0.1.example.com", "https://"),
        ("ARM_ENDPOINT", "https://x?sig=abc", "https://"),
        ("ARM_ENDPOINT", "https://x:port", "https://"),
        ("AZURE_AUTHORITY_HOST", "http://127.0.0.1", "https://login"),
        ("HTTPS_PROXY", "socks5://proxy:1080", "http://proxy"),
        ("HTTPS_PROXY", "http://", "http://proxy"),
    ],
)
def test_an_invalid_value_is_rejected_with_a_remedy(name: str, text: str, remedy: str) -> None:
    """The error names the variable."""
    found = the_error(None, None, **{name: text})
    assert found.field == name
    assert remedy in found.remedy
    assert found.message


@pytest.mark.parametrize(
    ("name", "text", "field"),
    [
        ("METRICS_PORT", "tcp://10.0.0.1:80", "metrics_port"),
        ("DISABLE_LEADER_ELECTION", "yes", "disable_leader_election"),
        ("LAUNCH_DEADLINE", "soon", "launch_seconds"),
        ("MAX_AGENT_POOLS", "١٢", "max_agent_pools"),
    ],
)
def test_an_invalid_number_or_boolean_of_the_environment_is_a_warning(name: str, text: str, field: str) -> None:
    """The default applies, as in Karpenter. Kubernetes injects variables such as METRICS_PORT for Services."""
    settings = loaded(None, None, **{name: text})
    assert getattr(settings, field) == getattr(loaded(), field)
    assert dict(settings.origins)[field] == "default"
    (warning,) = settings.warnings
    assert warning.startswith(f"{name}={text}: ")
    assert warning.endswith("; using the default")


@pytest.mark.parametrize("strict", [{"flags": {"strict-config": "true"}}, {"file": {"strict-config": True}}])
def test_strict_config_turns_these_warnings_into_errors(strict: dict[str, dict[str, str]]) -> None:
    found = the_error(strict.get("flags"), strict.get("file"), METRICS_PORT="abc")
    assert (found.field, found.value, found.message) == ("METRICS_PORT", "abc", "it is not an integer")


def test_an_invalid_strict_config_is_a_single_warning() -> None:
    (warning,) = loaded(STRICT_CONFIG="very").warnings
    assert warning.startswith("STRICT_CONFIG=very: ")


def test_invalid_flags_and_file_values_are_always_errors() -> None:
    found = errors({"metrics-port": "abc", "max-agent-pools": ""}, {"health-probe-port": "abc"})
    assert [e.field for e in found] == ["--metrics-port", "health-probe-port", "--max-agent-pools"]


def test_the_ports_of_metrics_and_probes_must_differ() -> None:
    """Port 0 selects any free port and can be used for both."""
    assert the_error(METRICS_PORT="9000", HEALTH_PROBE_PORT="9000").field == "HEALTH_PROBE_PORT"
    assert loaded(METRICS_PORT="0", HEALTH_PROBE_PORT="0").metrics_port == 0


# --- types -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("45m", 2700), ("1h30m", 5400), ("1.5h", 5400), ("600", 600), ("0.5", 0.5), ("100ms", 0.1)],
)
def test_deadlines_are_go_durations_or_seconds(text: str, seconds: float) -> None:
    """A number without a unit is in seconds."""
    assert loaded(CREATING_DEADLINE=text).creating_seconds == seconds


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", True), ("t", True), ("TRUE", True), ("True", True), ("0", False), ("f", False), ("False", False)],
)
def test_booleans_are_those_of_gos_parsebool(text: str, value: bool) -> None:
    assert loaded(DISABLE_LEADER_ELECTION=text).disable_leader_election is value


@pytest.mark.parametrize(
    ("text", "cloud", "endpoint", "scope", "authority"),
    [
        *(
            (
                spelling,
                "AzurePublicCloud",
                "https://management.azure.com",
                "https://management.azure.com/.default",
                "https://login.microsoftonline.com",
            )
            for spelling in ("AzurePublicCloud", "AZUREPUBLICCLOUD", "public", "AzureCloud", "AZURE_PUBLIC_CLOUD")
        ),
        *(
            (
                spelling,
                "AzureUSGovernment",
                "https://management.usgovcloudapi.net",
                "https://management.core.usgovcloudapi.net/.default",
                "https://login.microsoftonline.us",
            )
            for spelling in (
                "AzureUSGovernmentCloud",
                "AzureUSGovernment",
                "usgovernment",
                "AZURE_US_GOVERNMENT",
                "us-gov",
            )
        ),
        *(
            (
                spelling,
                "AzureChinaCloud",
                "https://management.chinacloudapi.cn",
                "https://management.chinacloudapi.cn/.default",
                "https://login.chinacloudapi.cn",
            )
            for spelling in ("AzureChinaCloud", "china", "AZURE_CHINA_CLOUD")
        ),
    ],
)
def test_every_name_of_a_cloud_selects_its_endpoints(
    text: str, cloud: str, endpoint: str, scope: str, authority: str
) -> None:
    """ARM endpoint, token audience and authority host."""
    settings = loaded(AZURE_ENVIRONMENT=text, AZURE_AUTHORITY_HOST="")
    assert (settings.cloud, settings.arm_endpoint, settings.arm_scope) == (cloud, endpoint, scope)
    assert settings.authority_host == authority
    assert settings.warnings == ()


def test_single_endpoints_can_be_overridden() -> None:
    settings = loaded(ARM_ENDPOINT="https://arm.example.com/", ARM_AUDIENCE="https://audience.example.com/")
    assert (settings.arm_endpoint, settings.arm_scope) == (
        "https://arm.example.com",
        "https://audience.example.com/.default",
    )
    (warning,) = settings.warnings
    assert "tokens for https://audience.example.com are sent to arm.example.com" in warning


@pytest.mark.parametrize("address", ["http://localhost:1", "http://127.8.9.10", "http://[::1]:8080"])
def test_plain_http_is_accepted_for_loopback(address: str) -> None:
    assert loaded(ARM_ENDPOINT=address).plain_arm


def test_a_proxy_without_a_scheme_uses_http() -> None:
    """As in Go."""
    assert loaded(HTTPS_PROXY="proxy.example.com:3128").https_proxy == "http://proxy.example.com:3128"


# --- warnings and notes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "warning"),
    [
        ({"ARM_SUBSCRIPTION_ID": "sub-1"}, "not a GUID"),
        ({"ARM_RESOURCE_GROUP": "mc_rg-1_aks-1_eastus"}, "looks like the resource group of the nodes"),
        ({"AZURE_ENVIRONMENT": "china"}, "AZURE_AUTHORITY_HOST is that of AzurePublicCloud"),
        ({"DISABLE_LEADER_ELECTION": "true"}, "one replica only"),
        ({"FEATURE_GATES": "StaticCapacity=false"}, "does not contain NodeRepair"),
        ({"FEATURE_GATES": "NodeRepair=true,Teleport=true"}, "unknown gates: Teleport"),
        ({"E2E_TEST_MODE": "true"}, "E2E_TEST_MODE has no effect"),
        ({"LOG_OUTPUT_PATHS": "/var/log/x"}, "LOG_OUTPUT_PATHS has no effect"),
    ],
)
def test_an_unlikely_value_is_a_warning(env: dict[str, str], warning: str) -> None:
    (found,) = loaded(None, None, **env).warnings
    assert warning in found


@pytest.mark.parametrize(
    ("gates", "repair"),
    [("NodeRepair=true", True), ("NodeRepair=false", False), (" NodeRepair = T , ReservedCapacity=true,", True)],
)
def test_node_repair_is_a_feature_gate(gates: str, repair: bool) -> None:
    """It is enabled by default, and disabled if the gates are set without it."""
    assert loaded(FEATURE_GATES=gates).node_repair is repair
    assert policy_from(loaded(FEATURE_GATES=gates)).node_repair is repair
    assert loaded().node_repair is True
    assert loaded(FEATURE_GATES="StaticCapacity=true").node_repair is False


def test_settings_without_effect_are_listed_in_one_note() -> None:
    """Flags, variables and keys of Azure/gpu-provisioner and Karpenter, with any value."""
    settings = loaded(
        {"batch-idle-duration": "not even a duration"},
        {"memory-limit": -1},
        PREFERENCE_POLICY="Nonsense",
        CPU_REQUESTS="-1",
    )
    assert settings.warnings == ()
    assert settings.notes == (
        "settings without effect: MEMORY_LIMIT, CPU_REQUESTS, BATCH_IDLE_DURATION, PREFERENCE_POLICY",
    )


# --- secrets ---------------------------------------------------------------------------------------------------------


def test_the_password_of_a_proxy_is_masked_in_output() -> None:
    """The setting itself contains it."""
    settings = loaded(HTTPS_PROXY="http://user:p@ss word@proxy.example.com:3128")
    assert settings.https_proxy == "http://user:p@ss word@proxy.example.com:3128"
    everything = repr(settings) + repr(load_all({}, {**ENV, "HTTPS_PROXY": settings.https_proxy}))
    assert "***@proxy.example.com:3128" in everything
    for secret in ("p@ss", "word@", "user:"):
        assert secret not in everything


@pytest.mark.parametrize(
    "address", ["socks5://user:hunter2@proxy:80", "http://user:hunter2@proxy:port", "user:hunter2@:80"]
)
def test_the_error_of_an_invalid_proxy_does_not_contain_its_password(address: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        loaded(HTTPS_PROXY=address)
    text = str(refusal.value) + repr(refusal.value) + repr(refusal.value.errors)
    assert "hunter2" not in text
    assert "***@" in text
    assert refusal.value.__cause__ is None


def test_a_token_in_place_of_its_path_is_masked() -> None:
    token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"
    assert token not in repr(loaded(AZURE_FEDERATED_TOKEN_FILE=token))


# --- the list --------------------------------------------------------------------------------------------------------


def test_every_setting_is_listed_with_value_and_source() -> None:
    """The output of `gpu-provisioner config`."""
    rows, wrong = load_all({"metrics-port": "9", "arm-share": "0.05"}, {**ENV, "CREATING_DEADLINE": "1h"})
    described = {row.setting: (row.value, row.source) for row in rows}
    assert not wrong
    assert list(described) == [option.flag for option in OPTIONS]
    assert described["subscription-id"] == (SUBSCRIPTION, "env ARM_SUBSCRIPTION_ID")
    assert described["metrics-port"] == ("9", "flag --metrics-port")
    assert described["arm-share"] == ("0.05", "flag --arm-share")
    assert described["creating-deadline"] == ("1h", "env CREATING_DEADLINE")
    assert described["launch-deadline"] == ("5m", "default")
    assert described["location"] == ("(read from the cluster)", "default")
    assert described["max-agent-pools"] == ("(the cluster's limit minus 10)", "default")
    assert described["disable-leader-election"] == ("false", "default")
    assert described["feature-gates"] == ("NodeRepair=true", "default")
    assert described["arm-endpoint"] == ("https://management.azure.com", "default")


def test_missing_and_invalid_settings_are_listed_too() -> None:
    """Each with its error; all others have their values."""
    rows, wrong = load_all({}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "LOG_LEVEL": "chatty", "METRICS_PORT": "9"})
    marked = {row.setting: row.error for row in rows if row.error}
    assert set(marked) == {
        "subscription-id",
        "resource-group",
        "cluster-name",
        "tenant-id",
        "client-id",
        "federated-token-file",
        "log-level",
    }
    assert len(wrong) == len(marked)
    assert next(row.value for row in rows if row.setting == "metrics-port") == "9"


def test_an_error_has_a_line_for_the_cause_and_one_for_the_remedy() -> None:
    with pytest.raises(SettingsError) as refusal:
        loaded(LOG_LEVEL="chatty")
    assert str(refusal.value) == (
        "1 setting is invalid:\n"
        "  LOG_LEVEL=chatty: it is not an allowed value\n"
        "    Set it to one of debug, info, warning, error."
    )


def test_every_setting_has_help() -> None:
    """A single sentence without a full stop."""
    assert all(re.fullmatch(r"[^.]{5,}", option.help) for option in OPTIONS)
