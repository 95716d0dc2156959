"""The settings of the installed Helm release, for a command outside its Pod: the environment of its Deployment.

A release is found by the label `helm.sh/chart` of its Deployment, which also Azure/gpu-provisioner's chart sets, with
the same variables. Only `list deployments` is needed, in all namespaces or in that of the release. Variables from a
Secret or a ConfigMap are not read.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from provisioner.api.field_error import FieldError
from provisioner.api.meta import ObjectMeta, Struct
from provisioner.cli.arguments import PROGRAM
from provisioner.operator.clients import open_kube
from provisioner.runtime.kube import Kube
from provisioner.runtime.kube_errors import KubeError
from provisioner.runtime.objects import key_of
from provisioner.runtime.resources import Resource
from provisioner.settings import BY_FLAG, OPTIONS, REQUIRED, Settings, shown
from provisioner.settings.loading import FILE
from provisioner.settings.shown import masked

from .console import listed
from .refusal import by_api_server

# The namespace of the documented installation.
NAMESPACE = PROGRAM
CHART = "helm.sh/chart"
# Not the chart of the CRDs, whose name continues with a word.
_CHART = re.compile(rf"{PROGRAM}-[0-9].*")
CONTAINER = "controller"
FLAGS = listed([f"--{flag}" for flag in REQUIRED])
SELECT = f"Select the cluster with --context or --kubeconfig, or give {FLAGS}."
ONE_OF = f"Name its namespace with --release-namespace, or give {FLAGS}."
REQUEST = (
    "Request the permission to list deployments in the namespace of the release, which --release-namespace names,"
    f" or give {FLAGS}."
)
# The settings without which a command finds another cluster or another Lease.
_IDENTIFYING = (
    "subscription_id",
    "resource_group",
    "cluster_name",
    "cloud",
    "arm_endpoint",
    "leader_election_name",
    "leader_election_namespace",
    "disable_leader_election",
)


class _Variable(Struct, frozen=True, kw_only=True):
    name: str = ""
    value: str = ""


class _Container(Struct, frozen=True, kw_only=True):
    name: str = ""
    env: tuple[_Variable, ...] = ()


class _PodSpec(Struct, frozen=True, kw_only=True):
    containers: tuple[_Container, ...] = ()


class _Template(Struct, frozen=True, kw_only=True):
    spec: _PodSpec = _PodSpec()


class _Spec(Struct, frozen=True, kw_only=True):
    template: _Template = _Template()


class Deployment(Struct, frozen=True, kw_only=True):
    """The part with the environment of its containers."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()


DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", namespaced=True, type=Deployment)


class ReleaseSettings(NamedTuple):
    """`variables` of the Deployment; `why` and `remedy` for each required setting that is not among them."""

    variables: Mapping[str, str]
    why: str
    remedy: str

    def explained(self, error: FieldError) -> FieldError:
        """The error of a missing setting with the reason why the release does not set it; any other one unchanged."""
        if error.field not in {BY_FLAG[flag].env[0] for flag in REQUIRED} or error.value:
            return error
        return msgspec.structs.replace(error, message=f"not set, and {self.why}", remedy=self.remedy)


def missing(settings: Settings) -> tuple[str, ...]:
    """The flags of required settings that are not set."""
    return tuple(flag for flag in REQUIRED if not getattr(settings, BY_FLAG[flag].field))


def flags_of(settings: Settings) -> str:
    """The settings that identify the cluster and come from the release, as flags."""
    origins = dict(settings.origins)
    return " ".join(
        f"--{option.flag} {shlex.quote(shown(value, option.kind))}"
        for option in OPTIONS
        if option.field in _IDENTIFYING
        and origins.get(option.field, "").startswith("release ")
        and (value := getattr(settings, option.field)) != option.default
    )


def overridden(settings: Settings, release: Mapping[str, str]) -> Iterator[str]:
    """What identifies the cluster and was given otherwise than the release has it. `release`: its variables.

    Azure ignores the case of its names.
    """
    origins = dict(settings.origins)
    for option in OPTIONS:
        found = next((release[name].strip() for name in option.env if release.get(name, "").strip()), "")
        origin = origins.get(option.field, "")
        if option.field not in _IDENTIFYING or not found or origin == "default" or origin.startswith("release "):
            continue
        given = shown(getattr(settings, option.field), option.kind)
        try:
            differs = given.casefold() != shown(option.kind.read(found), option.kind).casefold()
        except ValueError:
            differs = True
        if differs:
            place, _, name = origin.partition(" ")
            where = f" in {FILE}" if place == "file" else ""
            yield f"{name}={given}{where} overrides {masked(found)} of the Helm release"


async def read_from_cluster(settings: Settings, namespace: str) -> ReleaseSettings:
    """The settings of the release in this namespace, "" for any. Raises ConfigException."""
    async with open_kube(settings) as kube:
        return await read(kube, namespace)


async def read(kube: Kube, namespace: str) -> ReleaseSettings:
    """The settings of the release in this namespace, "" for any.

    Who may not list all namespaces can read the documented one.
    """
    try:
        return _settings_of(await _deployments(kube, namespace), kube, namespace)
    except KubeError as error:
        if error.status != 403:
            return ReleaseSettings({}, f"the Helm release cannot be read: {error}", _or_flags(error))
        refused = error
    if not namespace:
        try:
            if found := await _deployments(kube, NAMESPACE):
                return _settings_of(found, kube, NAMESPACE)
        except KubeError as error:
            refused = error
    return ReleaseSettings({}, f"the Helm release cannot be read: {refused}", REQUEST)


async def _deployments(kube: Kube, namespace: str) -> tuple[Deployment, ...]:
    return (await kube.list(DEPLOYMENTS, digest=_of_the_chart, label_selector=CHART, namespace=namespace)).items


def _of_the_chart(found: Deployment) -> Deployment | None:
    return found if _CHART.fullmatch(found.metadata.labels.get(CHART, "")) else None


def _or_flags(error: KubeError) -> str:
    return f"{by_api_server(error).remedy.removesuffix('.')}, or give {FLAGS}."


def _settings_of(found: Sequence[Deployment], kube: Kube, namespace: str) -> ReleaseSettings:
    """The settings of the only Deployment."""
    if not found:
        where = f"namespace {namespace} of {kube.server}" if namespace else kube.server
        return ReleaseSettings({}, f"there is no Helm release of {PROGRAM} in {where}", SELECT)
    names = listed(sorted(map(key_of, found)))
    if len(found) > 1:
        return ReleaseSettings({}, f"there are {len(found)} Helm releases of {PROGRAM}: {names}", ONE_OF)
    containers = [one for one in found[0].spec.template.spec.containers if one.name == CONTAINER]
    variables = {one.name: one.value for container in containers for one in container.env if one.value}
    why = f"Deployment {names} has no plain value for it (a Secret or ConfigMap is not read)"
    return ReleaseSettings(variables, why, f"Give {FLAGS}.")
