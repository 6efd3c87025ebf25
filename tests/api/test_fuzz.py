"""Bodies nobody thought of: refused in words, or stored and read back as they were sent."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobqueued.api.submissions import SUBMISSION
from tests.api.support import JSON, Daemon, Reply

fuzzed = settings(
    max_examples=300,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)
labels = st.none() | st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=256)
moments = st.datetimes().map(lambda moment: f"{moment.isoformat()}Z")
types = st.sampled_from(["echo", "fail"])
good_fields: dict[str, st.SearchStrategy[Any]] = {
    "payload": values,
    "priority": st.integers(0, 9),
    "max_retries": st.integers(0, 20),
    "delay_seconds": st.floats(0, 1000) | st.integers(0, 1000),
    "expires_in_seconds": st.floats(2000, 9000),
    "correlation_id": labels,
    "key": labels,
}
odd_fields = good_fields | {"run_at": moments, "expires_at": moments, "other": values}
good_jobs = st.fixed_dictionaries({"type": types}, optional=good_fields)
odd_jobs = st.fixed_dictionaries(
    {"type": types | values},
    optional={name: field | values for name, field in odd_fields.items()},
)


@st.composite
def mutated(draw: st.DrawFn, documents: st.SearchStrategy[Any]) -> bytes:
    """A document with a few bytes changed, cut out or put in."""
    body = bytearray(json.dumps(draw(documents), ensure_ascii=draw(st.booleans())).encode())
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(body)))
        end = start + draw(st.integers(0, 3))
        body[start:end] = draw(st.binary(max_size=3) | st.sampled_from(SNIPPETS))
    return bytes(body)


SNIPPETS = [
    *(b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\", b"null", b"NaN", b"-", b"1e999", b"0"),
    *(b"\\ud800", b"\\u0000", b"\xff", b"\xc3\xbc", b"\x00", b"9" * 40, b"[" * 200, b'"key":1,'),
]
bodies = st.binary(max_size=200) | mutated(good_jobs) | mutated(odd_jobs) | mutated(values)
some_good_jobs = st.lists(good_jobs, min_size=1, max_size=5)
batches = st.fixed_dictionaries(
    {"jobs": some_good_jobs | st.lists(odd_jobs, max_size=7) | values},
    optional={"pace_per_second": st.floats(0.1, 1e6) | values},
)


def stored_jobs(reply: Reply) -> list[dict[str, Any]]:
    """The jobs an answer says are stored; none when it is a refusal that says why."""
    document = reply.document
    if reply.status in (400, 413):
        assert reply.headers["Content-Type"] == "application/problem+json"
        assert (document["status"], bool(document["detail"])) == (reply.status, True)
        return []
    assert reply.status == 201, reply
    jobs: list[dict[str, Any]] = document.get("jobs") or [document]
    return jobs


def assert_kept(daemon: Daemon, sent: dict[str, Any], job: dict[str, Any]) -> None:
    """Every field that was sent is there when the job is read again; it makes room for the next."""
    found = daemon.get(f"/jobs/{job['id']}")
    for name in sent.keys() & found.keys() - {"run_at", "expires_at"}:
        default = {"payload": {}, "priority": 5, "max_retries": job["max_retries"]}.get(name)
        wanted = default if sent[name] is None else sent[name]
        assert json.dumps(found[name]) == json.dumps(wanted), name
    daemon.post(f"/jobs/{job['id']}/cancel")


def sent_jobs(body: bytes) -> list[dict[str, Any]]:
    document = json.loads(body)
    jobs: list[dict[str, Any]] = document.get("jobs") or [document]
    return jobs


def assert_stored_or_refused(daemon: Daemon, path: str, body: bytes) -> int:
    """How many jobs the body made."""
    before = daemon.stored()
    made = stored_jobs(daemon.ask("POST", path, body, JSON))
    assert daemon.stored() == before + len(made)
    for sent, job in zip(sent_jobs(body) if made else [], made, strict=True):
        assert_kept(daemon, sent, job)
    return len(made)


@given(job=good_jobs)
@fuzzed
def test_a_good_job_is_kept_as_it_was_sent(daemon: Daemon, job: dict[str, Any]) -> None:
    body = json.dumps(job).encode()
    fits = len(json.dumps(job.get("payload", {}))) <= 1024
    assert assert_stored_or_refused(daemon, "/jobs", body) == int(fits)


@given(job=odd_jobs)
@fuzzed
def test_an_odd_job_is_kept_or_refused(daemon: Daemon, job: dict[str, Any]) -> None:
    made = assert_stored_or_refused(daemon, "/jobs", json.dumps(job).encode())
    assert made <= int(job.keys() <= SUBMISSION.keys())


@given(batch=batches)
@fuzzed
def test_an_odd_batch_is_kept_whole_or_refused(daemon: Daemon, batch: dict[str, Any]) -> None:
    assert_stored_or_refused(daemon, "/jobs/batch", json.dumps(batch).encode())


@given(body=bodies)
@fuzzed
def test_a_damaged_job_is_kept_or_refused(daemon: Daemon, body: bytes) -> None:
    assert_stored_or_refused(daemon, "/jobs", body)


@given(body=mutated(batches))
@fuzzed
def test_a_damaged_batch_is_kept_whole_or_refused(daemon: Daemon, body: bytes) -> None:
    assert_stored_or_refused(daemon, "/jobs/batch", body)


@given(body=bodies)
@fuzzed
def test_a_damaged_heartbeat_is_refused(daemon: Daemon, body: bytes) -> None:
    reply = daemon.ask("POST", "/leases/heartbeat", body, JSON)
    assert stored_jobs(reply) == []
