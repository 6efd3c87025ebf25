"""The headers of a webhook: which job it is, which attempt, and a signature (Standard Webhooks)."""

from __future__ import annotations

import hmac
import re
from base64 import b64encode
from collections.abc import Sequence

from multidict import CIMultiDict

from jobqueued.model.job import Claimed
from jobqueued.model.job_type import HttpHandler

_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)


def headers_of(job: Claimed, handler: HttpHandler, now: int) -> CIMultiDict[str]:
    """What a receiver is told; the type's own headers win only over the name of the sender."""
    headers = CIMultiDict({"User-Agent": "jobqueued"})
    headers.update(handler.headers)
    headers.update(
        {
            "Content-Type": "application/json",
            # The size of a compressed body says nothing about the size of what is in it.
            "Accept-Encoding": "identity",
            "Jobqueued-Type": job.type,
            "Jobqueued-Attempt": str(job.lease.attempt),
        }
    )
    headers.update(signature_headers(job.lease.job_id, now // 1000, job.payload, handler.secrets))
    if job.correlation_id is not None and _TRACEPARENT.fullmatch(job.correlation_id):
        headers["traceparent"] = job.correlation_id
    return headers


def signature_headers(
    job_id: str, seconds: int, body: bytes, secrets: Sequence[bytes]
) -> dict[str, str]:
    """Identity and time of a request, and one signature for each secret, if there are any."""
    headers = {"webhook-id": job_id, "webhook-timestamp": str(seconds)}
    if secrets:
        signed = b"%b.%d.%b" % (job_id.encode(), seconds, body)
        headers["webhook-signature"] = " ".join(_signature(key, signed) for key in secrets)
    return headers


def _signature(secret: bytes, signed: bytes) -> str:
    return f"v1,{b64encode(hmac.digest(secret, signed, 'sha256')).decode()}"
