"""Why a command did not do what it was asked: the cause, what to do, and the exit code.

Every failure of the API server or of ARM becomes one of these, with a remedy that fits its kind.
"""

from cloudprovider.errors import CloudError
from provisioner.runtime.kube_errors import KubeError

OK, FAILED, USAGE = 0, 1, 2


class Refused(Exception):
    """`cause` and `remedy` are one line each; `code` is the exit code."""

    def __init__(self, cause: str, remedy: str, code: int = FAILED) -> None:
        super().__init__(cause)
        self.cause = cause
        self.remedy = remedy
        self.code = code


def by_api_server(error: KubeError) -> Refused:
    """The API server did not do it, or could not be asked."""
    return Refused(f"the API server: {error}", _remedy(error))


def _remedy(error: KubeError) -> str:
    match error.status:
        case 401:
            return "Renew the credentials in the kubeconfig: kubectl get nodeclaims must answer with them."
        case 403:
            return "Ask for that permission; kubectl auth can-i --list shows the ones you have."
        case 404 if not error.not_found:
            return "Is this the right cluster (KUBECONFIG)? Its CRDs come with the chart gpu-provisioner-crd."
        case 0:
            return "Check KUBECONFIG and the network: kubectl version must answer. Then run this again."
    return "Run this again; it starts from what is there by then."


def by_arm(error: CloudError) -> Refused:
    """ARM did not answer as it should; its message says what to do about it, and a command does not go on trying."""
    return Refused(f"ARM: {error}", "Nothing was changed. Run this again once ARM answers.")
