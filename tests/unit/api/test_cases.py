"""The cases that run against the API server, as `hawk validate` sees them; and the documentation samples."""

from pathlib import Path

import pytest
import yaml

from hawk_api.catalogue import shipped
from hawk_api.models import load_preset
from hawk_api.names import child_name
from hawk_api.v1alpha1 import HawkPool
from hawk_api.validation import parse_object, validate_manifest
from tests.cluster.api.cases import ACCEPTED, CASES, REFUSED, Case

SAMPLES = sorted((Path(__file__).parents[3] / "docs" / "samples").glob("*.yaml"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.path.stem)
def test_hawk_validate_says_what_is_written(case: Case) -> None:
    case.check("findings", case.findings())


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.path.stem)
def test_what_the_api_server_refuses_hawk_validate_refuses_too(case: Case) -> None:
    assert any(finding.startswith("Error") for finding in case.findings())


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.path.stem)
def test_what_the_api_server_accepts_has_no_error(case: Case) -> None:
    assert not any(finding.startswith("Error") for finding in case.findings())
    assert parse_object(parse_object(case.object).to_dict()) == parse_object(case.object)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.path.stem)
def test_a_case_holds_what_it_is_about_and_no_defaults(case: Case) -> None:
    assert case.content.keys() <= {"about", "object", "says", "refusal", "findings"}


def test_there_are_cases() -> None:
    assert len(REFUSED) > 40
    assert len(ACCEPTED) > 10


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_samples_are_valid(sample: Path) -> None:
    for body in yaml.safe_load_all(sample.read_text(encoding="utf-8")):
        made = parse_object(body)
        assert isinstance(made, HawkPool)
        assert [str(v) for v in validate_manifest(body, shipped()) if v.severity == "Error"] == []
        assert made.spec.model.preset
        model = load_preset(made.spec.model.preset)
        for group in made.spec.groups:
            assert len(child_name(made.metadata.name, group.name)) <= 52
            memory = shipped()[group.accelerator_class].memory if group.accelerator_class else None
            if memory is not None:
                assert model.weights_bytes() < memory * group.accelerators_per_replica


def test_there_are_samples() -> None:
    assert [path.stem for path in SAMPLES] == ["llama-70b-h100-npu", "opt-125m-cpu"]
