"""Jobs: submit, read, list, cancel, run now."""

from __future__ import annotations

from aiohttp import web

from jobqueued import clock
from jobqueued.api.answers import Answer
from jobqueued.api.calls import Call
from jobqueued.api.queries import job_query
from jobqueued.api.submissions import parse_submission
from jobqueued.api.wire import attempts_json, job_json, page_json
from jobqueued.model.job import Job

IDEMPOTENCY_KEY = "Idempotency-Key"
_REPLAYED = ("Idempotency-Replayed", "true")


async def submit_job(call: Call) -> web.StreamResponse:
    """Store one job; the answer comes after it is on disk."""
    body = await call.body()
    submission = parse_submission(body, header_keys(call), call.engine.config, clock.now())
    submitted = await call.engine.submit(submission)
    job = submitted.job
    if call.query:
        job = await _waited_for(call, job)
    location = ("Location", f"/jobs/{job.id}")
    if submitted.replayed:
        return Answer(200, job_json(job), headers=(location, _REPLAYED))
    return Answer(201, job_json(job), headers=(location,))


async def show_job(call: Call) -> web.StreamResponse:
    """One job, at once or when it is terminal."""
    job = await call.engine.job(call.id)
    return Answer(200, job_json(await _waited_for(call, job)))


async def list_jobs(call: Call) -> web.StreamResponse:
    """One page of jobs."""
    return Answer(200, page_json(await call.engine.jobs(job_query(call.query))))


async def cancel_job(call: Call) -> web.StreamResponse:
    """Cancel a job that is not terminal."""
    await call.no_fields()
    return Answer(200, job_json(await call.engine.cancel(call.id)))


async def run_job(call: Call) -> web.StreamResponse:
    """Run a waiting job now."""
    await call.no_fields()
    return Answer(200, job_json(await call.engine.run_now(call.id)))


async def list_attempts(call: Call) -> web.StreamResponse:
    """Every attempt of a job, and what people did to it."""
    attempts = await call.engine.attempts(call.id)
    return Answer(200, attempts_json(attempts, await call.engine.dead_letters.changes(call.id)))


def header_keys(call: Call) -> list[str]:
    """Every Idempotency-Key header that was sent."""
    headers = call.request.headers
    return headers.getall(IDEMPOTENCY_KEY) if IDEMPOTENCY_KEY in headers else []


async def _waited_for(call: Call, job: Job) -> Job:
    seconds = call.query.get("wait")
    if not seconds or job.is_terminal:
        return job
    waited = await call.open_ended(call.engine.wait(job.id, seconds))
    return await call.engine.job(job.id) if waited is None else waited
