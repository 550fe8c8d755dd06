from __future__ import annotations

import uuid

import pytest

from tasks.ledger.keys import fingerprint_of, id_range_of, operation_key_of, reference_of

ACCOUNT = uuid.uuid4()


def key(**changed: object) -> str:
    values = {
        "account_id": ACCOUNT,
        "fingerprint": "f",
        "workflow": "summary",
        "workflow_version": 1,
        "options": {"length": "short", "form": "prose"},
        "fresh_run_key": None,
    }
    return operation_key_of(**{**values, **changed})  # type: ignore[arg-type]


def test_the_same_intent_has_the_same_key_in_whatever_order_its_options_come() -> None:
    assert key() == key(options={"form": "prose", "length": "short"})


@pytest.mark.parametrize(
    "other",
    [
        {"account_id": uuid.uuid4()},
        {"fingerprint": "g"},
        {"workflow": "questions"},
        {"workflow_version": 2},
        {"options": {"length": "long", "form": "prose"}},
        {"fresh_run_key": "again"},
    ],
)
def test_another_intent_has_another_key(other: dict[str, object]) -> None:
    assert key(**other) != key()


def test_bytes_taken_for_something_else_are_another_document() -> None:
    assert fingerprint_of(b"a,b", "csv") != fingerprint_of(b"a,b", "txt")


def test_a_reference_can_be_read_out_and_leads_back_to_the_job() -> None:
    job_id = uuid.uuid4()
    reference = reference_of(job_id)
    assert len(reference) == 12
    assert not set(reference[3:]) & set("ILOU")
    for spelling in (reference, reference.lower(), reference.removeprefix("WB-"), reference.replace("0", "O")):
        low, high = id_range_of(spelling) or (None, None)
        assert low is not None and high is not None
        assert low <= job_id <= high


@pytest.mark.parametrize("nonsense", ["", "WB-", "WB-7K3F", "WB-7K3F-92Q!", "WB-7K3F-92QDX"])
def test_what_is_no_reference_leads_nowhere(nonsense: str) -> None:
    assert id_range_of(nonsense) is None
