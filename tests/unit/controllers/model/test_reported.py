"""What a claim reports, as the next leader reads it: written by this release, by an earlier one, or by others."""

import msgspec
import pytest

from controllers.model.facts import Unhealthy
from controllers.model.recent_repairs import ANY_IMAGE, RepairStage
from controllers.model.reported import NOTHING, Reported, reported
from controllers.node.health.observation import states_suspension
from provisioner.api import labels
from tests.unit.builders import claim

IMAGE = "AKSUbuntu-2204gen2containerd-202601.1.0"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "[" * 100_000,
        "\ud800",
        '{"overdue":"Launched"}',
        '{"failure":{"message":"no cores"}}',
        '{"failure":{"reason":"QuotaExceeded","message":"","scope":"world"}}',
        '{"failure":{"reason":"QuotaExceeded","message":"","after":1e300}}',
    ],
)
def test_what_cannot_be_decoded_reports_nothing(text: str) -> None:
    """Users can write anything there, and an earlier release wrote nothing."""
    assert reported(claim(annotations={labels.REPORTED: text})) == NOTHING


@pytest.mark.parametrize(
    ("text", "image", "kept"),
    [
        (f'{{"suspendedImage":"{IMAGE}"}}', IMAGE, True),
        (f'{{"suspendedImage":"{IMAGE}"}}', f"{IMAGE}1", False),
        (f'{{"suspendedImage":"{IMAGE}"}}', ANY_IMAGE, False),
        (f'{{"suspendedImage":"{ANY_IMAGE}"}}', ANY_IMAGE, True),
        ('{"suspendedImage":""}', "", False),
        ("", IMAGE, True),
    ],
)
def test_a_suspended_machine_is_kept_until_its_image_changes(text: str, image: str, kept: bool) -> None:
    """Also if the image was not recorded, as by an earlier release."""
    suspended = claim(annotations={labels.REPORTED: text}, down={"NodeHealthy": "RepairSuspended"})
    stage = RepairStage(size="Standard_A", image=image, stage="NotRegistered")
    assert states_suspension(suspended, Unhealthy(node_uid="n", stage=stage)) is kept
    assert not states_suspension(claim(annotations={labels.REPORTED: text}), Unhealthy(node_uid="n", stage=stage))


def test_a_report_is_read_as_it_was_written() -> None:
    """The names on the wire are camelCase, and what is not reported is left out."""
    made = Reported(overdue=("Launched",), first_choice="QuotaExceeded")
    text = msgspec.json.encode(made).decode()
    assert text == '{"overdue":["Launched"],"firstChoice":"QuotaExceeded"}'
    assert reported(claim(annotations={labels.REPORTED: text})) == made
