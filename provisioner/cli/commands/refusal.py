"""The error of a command: the cause, the remedy and the exit code.

Errors of the API server and of ARM become a `Refused` with a remedy for their kind.
"""

from cloudprovider.errors import CloudError
from provisioner.api.text import printable
from provisioner.runtime.kube_errors import KubeError

OK, FAILED, USAGE = 0, 1, 2
SELECT_KUBECONFIG = "Correct the kubeconfig, or select another one with --kubeconfig or --context."


class Refused(Exception):
    """`cause` and `remedy` are one printable line each; `code` is the exit code."""

    def __init__(self, cause: str, remedy: str, code: int = FAILED) -> None:
        super().__init__(cause)
        self.cause = printable(cause)
        self.remedy = printable(remedy)
        self.code = code

    def printed(self, prefix: str) -> str:
        """Two lines, which begin with the name of the program or the command."""
        return f"{prefix}: {self.cause}\n    {self.remedy}\n"


def bad_kubeconfig(error: Exception) -> Refused:
    """The error for a kubeconfig that the SDK does not accept."""
    return Refused(str(error), SELECT_KUBECONFIG, USAGE)


def by_api_server(error: KubeError) -> Refused:
    """The error for a request that the API server refused or did not receive."""
    return Refused(f"the API server: {error}", _remedy(error))


def _remedy(error: KubeError) -> str:
    match error.status:
        case 401:
            return "Renew the credentials in the kubeconfig until kubectl get nodeclaims succeeds."
        case 403:
            return "Request this permission; kubectl auth can-i --list shows your permissions."
        case 404 if not error.not_found:
            return "Verify the cluster (--kubeconfig, --context); the chart gpu-provisioner-crd installs the CRDs."
        case 0:
            return "Check the kubeconfig and the network until kubectl version succeeds, then run the command again."
    return "Run the command again."


def by_arm(error: CloudError) -> Refused:
    """The error for a failed request to ARM; commands do not retry it."""
    return Refused(f"ARM: {error}", "Nothing was changed. Run the command again when ARM responds.")
