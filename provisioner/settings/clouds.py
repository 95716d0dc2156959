"""Azure's clouds: where ARM and Entra ID answer in each.

One name a cloud, found from every spelling in use (ARM's, the az CLI's, Terraform's, azure-core's).

Source: docs/references/agent-pools.md#identity-and-clouds.
"""

import msgspec


class Cloud(msgspec.Struct, frozen=True, kw_only=True):
    """`endpoint` is ARM's address, `audience` what its tokens are for, `authority` the address that issues them."""

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
    """The cloud of that name in any spelling; case, `-`, `_` and spaces do not count. None if there is none."""
    plain = "".join(character for character in text.lower() if character not in "-_ ")
    return next((cloud for cloud in CLOUDS if plain in cloud.spellings), None)
