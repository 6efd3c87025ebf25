"""What a payload must be to get in: not too large, not too deep, as the schema of its type says."""

from __future__ import annotations

import re

from jobqueued.api.fields import TOO_LARGE, Faults
from jobqueued.config import Config
from jobqueued.config.payloads import MOST_FAULTS, accepts_payload, payload_faults

MAX_DEPTH = 128
"""Levels of arrays and objects in a payload; comparing deeper ones would exhaust the stack."""
DEFAULT_PAYLOAD = b"{}"

_BRACKETS = re.compile(rb'"(?:[^"\\]++|\\.)*+"|([\[{])|[\]}]', re.DOTALL)


def is_plain_payload(payload: bytes, job_type: str, config: Config) -> bool:
    """Whether there is nothing to say against a payload for a configured type."""
    if len(payload) > config.queue.max_payload or _too_deep(payload):
        return False
    return accepts_payload(config.types[job_type], payload)


def check_payload(
    payload: bytes, job_type: str, config: Config, faults: Faults, where: str = ""
) -> None:
    """Note everything that is wrong with a payload; an unknown type has no schema."""
    most = config.queue.max_payload
    if len(payload) > most:
        message = f"is {len(payload)} bytes, more than {most} (queue.max_payload)"
        faults.add(f"{where}payload", message, TOO_LARGE)
    elif _too_deep(payload):
        faults.add(f"{where}payload", f"is nested more than {MAX_DEPTH} levels deep")
    # A request that has failed often enough is not worth more time.
    elif job_type in config.types and len(faults.found) < MOST_FAULTS:
        for field, message in payload_faults(config.types[job_type], payload):
            faults.add(f"{where}payload{field}", message)


def _too_deep(payload: bytes) -> bool:
    if payload.count(b"[") + payload.count(b"{") <= MAX_DEPTH:
        return False
    depth = 0
    for token in _BRACKETS.finditer(payload):
        if token[1]:
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif not token[0].startswith(b'"'):
            depth -= 1
    return False
