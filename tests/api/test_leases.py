from __future__ import annotations

import json

import pytest

from jobqueued.api.errors import Problem
from jobqueued.api.leases import MAX_LEASES, parse_heartbeat
from jobqueued.model.submission import Beat


def test_a_beat_with_everything() -> None:
    entry = {
        "token": "t",
        "extend_seconds": 1.5,
        "progress": {"percent": 40, "message": "resizing"},
    }
    assert parse_heartbeat(json.dumps({"leases": [entry]}).encode()) == [
        Beat(token="t", extend=1500, percent=40.0, message="resizing")
    ]


def test_a_token_is_enough() -> None:
    assert parse_heartbeat(b'{"leases":[{"token":"t","progress":null}]}') == [Beat(token="t")]


@pytest.mark.parametrize(
    ("leases", "field"),
    [
        (None, "leases"),
        ([], "leases"),
        ([{"token": "t"}] * (MAX_LEASES + 1), "leases"),
        ([{}], "leases[0].token"),
        ([{"token": ""}], "leases[0].token"),
        ([{"token": 5}], "leases[0].token"),
        ([{"token": "t", "extend_seconds": 0}], "leases[0].extend_seconds"),
        ([{"token": "t", "extend_seconds": 3601}], "leases[0].extend_seconds"),
        ([{"token": "t", "progress": 40}], "leases[0].progress"),
        ([{"token": "t", "progress": {}}], "leases[0].progress.percent"),
        ([{"token": "t", "progress": {"percent": 101}}], "leases[0].progress.percent"),
        ([{"token": "t", "progress": {"percent": 1, "text": ""}}], "leases[0].progress.text"),
        ([{"token": "t", "status": "ok"}], "leases[0].status"),
    ],
)
def test_an_invalid_beat_is_refused(leases: object, field: str) -> None:
    with pytest.raises(Problem) as caught:
        parse_heartbeat(json.dumps({"leases": leases}).encode())
    assert (caught.value.status, caught.value.faults[0].field) == (400, field)
