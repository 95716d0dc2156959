"""Azure's clouds, with the addresses of ARM and Entra ID.

A cloud is found by every name that ARM, the az CLI, Terraform or azure-core has for it.

Source: docs/references/agent-pools.md#identity-and-clouds.
"""

import msgspec


class Cloud(msgspec.Struct, frozen=True, kw_only=True):
    """`endpoint` is the address of ARM, `audience` that of its tokens, `authority` the address that issues them."""

    name: str
    endpoint: str
    audience: str
    authority: str
    spellings: tuple[str, ...]


CLOUDS = (
    Cloud(
        name="AzurePublicCloud",
        endpoint="https://management.azure.com",
        audience="https://management.azure.com",
        authority="https://login.microsoftonline.com",
        spellings=("azurepubliccloud", "azurepublic", "azurecloud", "public", "azure"),
    ),
    Cloud(
        name="AzureUSGovernment",
        endpoint="https://management.usgovcloudapi.net",
        audience="https://management.core.usgovcloudapi.net",
        authority="https://login.microsoftonline.us",
        spellings=(
            "azureusgovernment",
            "azureusgovernmentcloud",
            "azureusgov",
            "usgovernment",
            "usgovernmentcloud",
            "usgov",
        ),
    ),
    Cloud(
        name="AzureChinaCloud",
        endpoint="https://management.chinacloudapi.cn",
        audience="https://management.chinacloudapi.cn",
        authority="https://login.chinacloudapi.cn",
        spellings=("azurechinacloud", "azurechina", "chinacloud", "china"),
    ),
)
PUBLIC = CLOUDS[0]


def find_cloud(text: str) -> Cloud | None:
    """The cloud with this name, ignoring case, `-`, `_` and spaces; None if there is none."""
    plain = "".join(character for character in text.lower() if character not in "-_ ")
    return next((cloud for cloud in CLOUDS if plain in cloud.spellings), None)
