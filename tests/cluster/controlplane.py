"""A real control plane on loopback: etcd and kube-apiserver, and the controller manager where a test needs it.

RBAC is on; the administrator has a static token; our chart's service account gets its tokens from the TokenRequest API.
It is bound to no event loop: started in one, it can be used in another.

Source: https://github.com/kubernetes-sigs/controller-runtime/tree/main/pkg/internal/testing/controlplane (flags),
https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/.
"""

import asyncio
import json
import secrets
import shutil
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import aiohttp
import yaml

from tests.ports import free_ports

from . import charts, housekeeping
from .certificates import Pki, write_pki
from .processes import Program, answers

Json = dict[str, Any]

NAMESPACE = "gpu-provisioner"
MEMORY = Path("/dev/shm")  # noqa: S108 - created by mkdtemp
MEMORY_BYTES = 4 * 2**30
SERVICE_ACCOUNT = "gpu-provisioner"
TOKEN_SECONDS = 3600
REQUEST_SECONDS = 60.0
# Without heartbeats the node lifecycle controller marks each Node unreachable after 50 s: tests select it by name.
CONTROLLERS = (
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "disruption-controller",
)
REQUEST_METADATA = {"level": "Metadata", "omitStages": ["RequestReceived"]}
AUDIT = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [REQUEST_METADATA]}


def data_folder(workdir: Path) -> Path:
    """A folder for etcd's data, in memory where there is room: requests time out while a busy disk stalls."""
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES:
        return Path(tempfile.mkdtemp(prefix="etcd-", dir=MEMORY))
    return workdir / "etcd"


class ControlPlane:
    """`url`, `ca_file` and `admin_token` are all that a client needs; `audit_log` is None unless it was requested."""

    def __init__(self, assets: Path, workdir: Path, *, audit: bool) -> None:
        self.workdir = workdir
        self.admin_token = secrets.token_hex(16)
        self.controller_token = ""
        self.audit_log = workdir / "audit.log" if audit else None
        self.pki: Pki = write_pki(workdir)
        self.ca_file = self.pki.ca
        self.assets = assets
        self._etcd_port, peer_port, self._api_port, self._manager_port = free_ports(4)
        self.url = f"https://127.0.0.1:{self._api_port}"
        self._write_inputs()
        self._data = data_folder(workdir)
        self.etcd = Program("etcd", self._etcd_command(peer_port), workdir / "etcd.log")
        self.apiserver = Program(
            "kube-apiserver", self._apiserver_command(self._api_port), workdir / "kube-apiserver.log"
        )
        self.manager: Program | None = None

    @classmethod
    @asynccontextmanager
    async def start(
        cls,
        assets: Path,
        workdir: Path,
        *,
        controller_manager: bool | tuple[str, ...] = False,
        audit: bool = False,
    ) -> AsyncIterator[Self]:
        """Run one until the context ends. `controller_manager`: names of its controllers, True for `CONTROLLERS`."""
        made = cls(assets, workdir, audit=audit)
        try:
            made.etcd.start()
            await made.etcd.ready(made._etcd_is_ready)
            made.apiserver.start()
            await made.apiserver.ready(made.is_ready)
            if controller_manager:
                await made.start_manager(CONTROLLERS if isinstance(controller_manager, bool) else controller_manager)
            yield made
        finally:
            for program in (made.manager, made.apiserver, made.etcd):
                if program is not None:
                    program.stop()
            shutil.rmtree(made._data, ignore_errors=True)

    # Clients

    @property
    def ssl(self) -> ssl.SSLContext:
        """Trusts this control plane only."""
        return ssl.create_default_context(cafile=str(self.ca_file))

    def session(self, token: str | None = None) -> aiohttp.ClientSession:
        """A new client session with relative URLs, with the administrator's token unless another is given."""
        return aiohttp.ClientSession(
            self.url,
            connector=aiohttp.TCPConnector(ssl=self.ssl),
            headers={"Authorization": f"Bearer {self.admin_token if token is None else token}"},
            timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
        )

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = "application/json",
        *,
        token: str | None = None,
    ) -> tuple[int, Any]:
        """One request; returns (status, JSON, or text where the response is not JSON)."""
        data = None if body is None else json.dumps(body).encode()
        async with (
            self.session(token) as session,
            session.request(method, path, data=data, headers={"Content-Type": content_type}) as answer,
        ):
            text = await answer.text()
            return answer.status, json.loads(text) if answer.content_type == "application/json" else text

    async def demand(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> Any:
        """One request that must succeed. Raises AssertionError with the server's message."""
        status, answer = await self.request(method, path, body, content_type)
        assert status < 400, f"{method} {path}: {status} {answer}"
        return answer

    def kubeconfig(self, path: Path, user: str = "admin", *, token: str | None = None) -> Path:
        """Write a kubeconfig file. "controller" is our service account, once its roles are installed."""
        known = {"admin": self.admin_token, "controller": self.controller_token}
        name, chosen = "loopback", token or known[user]
        assert chosen, f"{user} has no token yet"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [
                {"name": name, "cluster": {"server": self.url, "certificate-authority": str(self.ca_file)}},
            ],
            "users": [{"name": user, "user": {"token": chosen}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
        }
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        return path

    # Installation

    async def install_crds(self) -> None:
        """Install our CRDs and wait until they are established."""
        await charts.install_crds(self)

    async def install_chart_rbac(self, namespace: str = NAMESPACE, values: dict[str, Any] | None = None) -> None:
        """Install our chart's roles, and store a token of its service account in `controller_token`."""
        await charts.install_rbac(self, namespace, values)
        self.controller_token = await self.service_account_token(SERVICE_ACCOUNT, namespace)

    async def service_account_token(self, name: str, namespace: str, seconds: int = TOKEN_SECONDS) -> str:
        """A new token of a service account from the TokenRequest API; 600 s is the minimum."""
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        made = await self.demand("POST", path, request)
        return str(made["status"]["token"])

    async def wipe(self) -> None:
        """Delete what tests create: claims, Nodes, pods, budgets, Leases, Events, other namespaces and kinds."""
        await housekeeping.wipe(self)

    # Restarts

    async def restart_apiserver(self, *, kill: bool = False) -> None:
        """Stop the API server (`kill`: by SIGKILL), start it again, and wait until it is ready."""
        await asyncio.to_thread(self.apiserver.kill if kill else self.apiserver.stop)
        self.apiserver.start()
        await self.apiserver.ready(self.is_ready)

    async def compact_etcd(self) -> int:
        """Compact etcd at its current revision; returns the revision.

        The API server still serves watches from its watch cache; after a restart it has nothing older than this.
        """
        async with aiohttp.ClientSession(f"http://127.0.0.1:{self._etcd_port}") as session:
            async with session.post("/v3/kv/range", json={"key": "AA==", "limit": 1}) as answer:
                revision = int((await answer.json())["header"]["revision"])
            async with session.post("/v3/kv/compaction", json={"revision": revision, "physical": True}) as answer:
                assert answer.status == 200, await answer.text()
        return revision

    async def start_manager(self, controllers: tuple[str, ...], *flags: str) -> None:
        """Start the controller manager with these controllers."""
        config = self.kubeconfig(self.workdir / "manager.kubeconfig")
        command = [
            str(self.assets / "kube-controller-manager"),
            f"--kubeconfig={config}",
            f"--controllers={','.join(controllers)}",
            f"--service-account-private-key-file={self.pki.tokens_key}",
            f"--root-ca-file={self.ca_file}",
            f"--secure-port={self._manager_port}",
            f"--cert-dir={self.workdir / 'manager'}",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
            *flags,
        ]
        self.manager = Program("kube-controller-manager", command, self.workdir / "kube-controller-manager.log")
        self.manager.start()
        await self.manager.ready(self._manager_is_ready)

    def is_ready(self) -> bool:
        """Whether /readyz succeeds. Blocks for the duration of the request."""
        return answers(self._api_port, "/readyz", trust=self.ssl, token=self.admin_token)

    def _etcd_is_ready(self) -> bool:
        return answers(self._etcd_port, "/health")

    def _manager_is_ready(self) -> bool:
        unknown = ssl.create_default_context()
        unknown.check_hostname, unknown.verify_mode = False, ssl.CERT_NONE
        return answers(self._manager_port, "/healthz", trust=unknown)

    # Command lines

    def _write_inputs(self) -> None:
        tokens = self.workdir / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text(f'{self.admin_token},admin,admin,"system:masters"\n', encoding="utf-8")
        if self.audit_log is not None:
            (self.workdir / "audit.yaml").write_text(yaml.safe_dump(AUDIT), encoding="utf-8")

    def _etcd_command(self, peer_port: int) -> list[str]:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{peer_port}"
        return [
            str(self.assets / "etcd"),
            f"--data-dir={self._data}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _apiserver_command(self, port: int) -> list[str]:
        pki = self.pki
        audit = (
            [f"--audit-log-path={self.audit_log}", f"--audit-policy-file={self.workdir / 'audit.yaml'}"]
            if self.audit_log is not None
            else []
        )
        return [
            str(self.assets / "kube-apiserver"),
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            # Only tests compact the history.
            "--etcd-compaction-interval=0",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--secure-port={port}",
            f"--tls-cert-file={pki.server_cert}",
            f"--tls-private-key-file={pki.server_key}",
            f"--cert-dir={self.workdir / 'apiserver'}",
            f"--token-auth-file={self.workdir / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pki.tokens_key}",
            f"--service-account-signing-key-file={pki.tokens_key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            # Pods of tests have no service account, as they are never run.
            "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged=true",
            # Without it, open watches delay a graceful shutdown by a minute.
            "--shutdown-watch-termination-grace-period=1s",
            "--profiling=false",
            *audit,
        ]
