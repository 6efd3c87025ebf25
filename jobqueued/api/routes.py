"""The one table of routes: what answers, and what the API description says about it."""

from __future__ import annotations

from typing import Any

import msgspec

from jobqueued.api import (
    batches,
    cancel,
    dlq,
    health,
    jobs,
    leases,
    logs,
    queries,
    submissions,
    types,
    why,
    wire,
    wire_leases,
    wire_types,
    wire_why,
    work,
)
from jobqueued.api.calls import Handler
from jobqueued.api.fields import Fields
from jobqueued.api.queries import Parameters

IDEMPOTENCY_HEADER = jobs.IDEMPOTENCY_KEY


class Route(msgspec.Struct, frozen=True):
    """A method and a path, who answers, with what, and which refusals to expect.

    `answers` maps a status to the type of the body; None is plain text.
    """

    method: str
    path: str
    name: str
    handler: Handler
    summary: str
    answers: dict[int, Any]
    refusals: tuple[int, ...] = ()
    query: Parameters = {}
    body: Fields | None = None
    lists: dict[str, Fields] = {}
    """Fields of `body` that are lists, and the fields of their entries."""
    headers: tuple[str, ...] = ()


_STORING = (400, 413, 415, 422, 429, 503)

SERVICE_ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/jobs",
        "submit_job",
        jobs.submit_job,
        "Submit a job; answered when it is on disk",
        {201: wire.WireJob, 200: wire.WireJob},
        _STORING,
        query=queries.WAIT,
        body=submissions.SUBMISSION,
        headers=(IDEMPOTENCY_HEADER,),
    ),
    Route(
        "POST",
        "/jobs/batch",
        "submit_batch",
        batches.submit_batch,
        "Submit many jobs, all or nothing",
        {201: wire.WireNewBatch, 200: wire.WireCheckedBatch},
        _STORING,
        query=queries.CHECK,
        body=submissions.BATCH,
        lists={"jobs": submissions.SUBMISSION},
    ),
    Route(
        "GET",
        "/batches/{id}",
        "show_batch",
        batches.show_batch,
        "How far a batch is",
        {200: wire.WireBatch},
        (404,),
    ),
    Route(
        "GET",
        "/jobs",
        "list_jobs",
        jobs.list_jobs,
        "List jobs, newest first",
        {200: wire.WireJobPage},
        (400,),
        query=queries.LIST,
    ),
    Route(
        "GET",
        "/jobs/{id}",
        "show_job",
        jobs.show_job,
        "One job, at once or when it is terminal",
        {200: wire.WireJob},
        (400, 404),
        query=queries.WAIT,
    ),
    Route(
        "POST",
        "/jobs/cancel",
        "cancel_jobs",
        cancel.cancel_jobs,
        "Cancel the jobs that fit, a bounded number a call; at least one filter is needed",
        {200: wire.WireCancelled},
        (400, 413, 415),
        body=cancel.CANCEL,
    ),
    Route(
        "POST",
        "/jobs/{id}/cancel",
        "cancel_job",
        jobs.cancel_job,
        "Cancel a job: a waiting one at once, a running one by stopping its handler",
        {200: wire.WireJob},
        (400, 404, 409),
    ),
    Route(
        "POST",
        "/jobs/{id}/run",
        "run_job",
        jobs.run_job,
        "Run a scheduled or retrying job now",
        {200: wire.WireJob},
        (400, 404, 409),
    ),
    Route(
        "GET",
        "/jobs/{id}/attempts",
        "list_attempts",
        jobs.list_attempts,
        "Every attempt of a job, and what people did to it",
        {200: wire.WireAttempts},
        (404,),
    ),
    Route(
        "GET",
        "/jobs/{id}/why",
        "explain_job",
        why.explain_job,
        "Why a job is not running: every reason that holds now, and when it may start",
        {200: wire_why.WireWhy},
        (404,),
    ),
    Route(
        "GET",
        "/jobs/{id}/logs",
        "show_log",
        logs.show_log,
        "The captured output of a job",
        {200: None},
        (400, 404),
        query=queries.LOG,
    ),
    Route(
        "GET",
        "/dlq",
        "list_dead",
        dlq.list_dead,
        "List dead jobs, newest first",
        {200: wire.WireJobPage},
        (400,),
        query=queries.DEAD_LIST,
    ),
    Route(
        "POST",
        "/dlq/replay",
        "replay_many",
        dlq.replay_many,
        "Run many dead jobs of a type again, oldest first, as far as the queue has room",
        {200: wire.WireReplayed},
        (400, 409, 413, 415, 429),
        body=dlq.REPLAY_MANY,
    ),
    Route(
        "GET",
        "/dlq/{id}",
        "show_dead",
        dlq.show_dead,
        "One dead job with all its attempts, and what people did to it",
        {200: wire.WireDeadJob},
        (404,),
    ),
    Route(
        "POST",
        "/dlq/{id}/replay",
        "replay_dead",
        dlq.replay_dead,
        "Run a dead job again with fresh attempts, with another payload where one is sent",
        {200: wire.WireJob},
        (400, 404, 409, 413, 415),
        body=dlq.REPLAY,
    ),
    Route(
        "POST",
        "/dlq/{id}/discard",
        "discard_dead",
        dlq.discard_dead,
        "Give a dead job up, with a note that says why",
        {200: wire.WireJob},
        (400, 404, 409, 413, 415),
        body=dlq.DISCARD,
    ),
    Route(
        "POST",
        "/leases",
        "lease_jobs",
        work.lease_jobs,
        "Lease jobs to a remote worker, at once or when they come",
        {200: wire_leases.WireLeasedJobs},
        (400, 413, 415),
        body=work.POLL,
    ),
    Route(
        "POST",
        "/leases/settle",
        "settle_leases",
        work.settle_leases,
        "Report what became of leased jobs; a late report changes nothing",
        {200: wire_leases.WireSettledLeases},
        (400, 413, 415),
        body=work.SETTLE,
        lists={"leases": work.REPORT},
    ),
    Route(
        "POST",
        "/leases/heartbeat",
        "heartbeat",
        leases.heartbeat,
        "Extend leases and note progress; the lease token is the authority",
        {200: wire_leases.WireBeats},
        (400, 413, 415),
        body=leases.HEARTBEAT,
        lists={"leases": leases.BEAT},
    ),
    Route(
        "GET",
        "/types",
        "list_types",
        types.list_types,
        "Every type: how it is set up, what holds it, how it is doing",
        {200: wire_types.WireTypes},
    ),
    Route(
        "GET",
        "/types/{id}",
        "show_type",
        types.show_type,
        "One type by its name",
        {200: wire_types.WireType},
        (404,),
    ),
    Route(
        "GET",
        "/types/{id}/why",
        "explain_type",
        why.explain_type,
        "What holds a type, and its waiting jobs by what they wait for",
        {200: wire_why.WireTypeWhy},
        (404,),
    ),
    Route(
        "POST",
        "/types/{id}/pause",
        "pause_type",
        types.pause_type,
        "Start no more jobs of a type, through restarts too; pausing again only renews the note",
        {200: wire_types.WireType},
        (400, 404, 413, 415),
        body=types.PAUSE,
    ),
    Route(
        "POST",
        "/types/{id}/resume",
        "resume_type",
        types.resume_type,
        "Start jobs of a type again",
        {200: wire_types.WireType},
        (400, 404),
    ),
    Route(
        "GET",
        "/stats",
        "show_stats",
        health.show_stats,
        "What the daemon is doing",
        {200: dict[str, Any]},
    ),
    Route(
        "GET",
        "/healthz",
        "show_health",
        health.show_health,
        "The daemon is alive",
        {200: wire.WireHealth},
    ),
    Route(
        "GET",
        "/readyz",
        "show_readiness",
        health.show_readiness,
        "Whether jobs are accepted",
        {200: wire.WireReadiness, 503: wire.WireReadiness},
    ),
)
