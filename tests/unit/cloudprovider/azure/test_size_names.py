"""The size that an unknown name means, as a table."""

import pytest

from cloudprovider.azure.pricing import is_known_size, known_sizes, list_prices, sizes
from cloudprovider.azure.size_names import nearest_size

A100, TWO_A100, T4 = "Standard_NC24ads_A100_v4", "Standard_NC48ads_A100_v4", "Standard_NC4as_T4_v3"
REGION = "eastus"

MEANT = {
    # one character
    "Standard_NC24ads_A100_v5": A100,
    "Standard_NC24ad_A100_v4": A100,
    "standard_nc24adss_a100_v4": A100,
    "Standard_ND24ads_A100_v4": A100,
    "Standard_NC4as_T5_v3": T4,
    "Standard_NC40ads_A100_v4": TWO_A100,
    "Standard_NC96isr_H100_v5": "Standard_ND96isr_H100_v5",
    "Standard_NC36ads_A10_v5": "Standard_NV36ads_A10_v5",
    "Standard_D8s_v6": "Standard_D8s_v5",
    # the model, then the series, then the vCPUs
    "Standard_NC24ads_H100_v5": "Standard_NC40ads_H100_v5",
    "Standard_NC64ads_A100_v4": TWO_A100,
    "Standard_NC96ads_H100_v5": "Standard_NC80adis_H100_v5",
    "Standard_ND96asr_A100_v4": "Standard_ND96amsr_A100_v4",
    "Standard_ND24ads_T4_v3": "Standard_NC16as_T4_v3",
    "Standard_NC2as_T4_v3": T4,
    "Standard_NC320ds_RTXPRO6000BSE_v6": "Standard_NC288ds_xl_RTXPRO6000BSE_v6",
    # sizes that Azure has retired have no model in their name
    "Standard_NC6s_v3": "Standard_NC8as_T4_v3",
    "Standard_NC24s_v3": A100,
    # without the prefix, and as they are
    "NC24ads_A100_v4": A100,
    "STANDARD_NC24ADS_A100_V4": A100,
    # too far away
    "Standard_NC1as_T4_v3": "",
    "Standard_NC300ads_A100_v4": "",
    "Standard_NX": "",
    "Standard_X9": "",
    f"Standard_NC{'9' * 400}ads_A100_v4": "",
    f"Standard_NC{'9' * 5000}ads_A100_v4": "",
    "p3.2xlarge": "",
    "n1-standard-4": "",
    "": "",
}


@pytest.mark.parametrize(("written", "meant"), MEANT.items())
def test_the_size_that_is_meant(written: str, meant: str) -> None:
    assert nearest_size(written) == meant


@pytest.mark.parametrize("size", known_sizes())
def test_a_known_size_is_meant_as_it_is(size: str) -> None:
    """Also in another case; and a size with one wrong character never becomes one of three times its price."""
    assert is_known_size(size)
    assert nearest_size(size) == nearest_size(size.upper()) == size
    prices = {one.name: one.price for one in sizes(list_prices(REGION))}
    for place in range(len("Standard_"), len(size)):
        meant = nearest_size(f"{size[:place]}{size[place + 1 :]}")
        price, right = prices.get(meant), prices.get(size)
        assert price is None or right is None or price <= 3 * right, (place, meant)
