"""Payloads that are not as the schema of their type wants them never become jobs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.acceptance.conftest import Serve
from tests.acceptance.support import Serving
from tests.api.support import ROOT

PLAIN = '[types.free]\ncommand = ["cat"]\n'
SHAPED = PLAIN + '[types.resize]\ncommand = ["cat"]\npayload_schema = "resize.json"\n'
LIBRARY = "jsonschema_rs"


def write_schema(place: Path, most: int) -> None:
    item = {
        "type": "object",
        "required": ["width"],
        "properties": {"width": {"type": "integer", "minimum": 1, "maximum": most}},
    }
    schema = {
        "type": "object",
        "properties": {"items": {"items": {"$ref": "#/$defs/item"}}},
        "additionalProperties": False,
        "$defs": {"item": item},
    }
    (place / "resize.json").write_text(json.dumps(schema))


def serve_shaped(prepare: Serve, tmp_path: Path) -> Serving:
    write_schema(tmp_path, 100)
    return prepare(SHAPED).start()


def sized(*widths: object) -> dict[str, object]:
    return {"items": [{"width": width} for width in widths]}


def libraries(serving: Serving) -> str:
    return Path(f"/proc/{serving.process.pid}/maps").read_text()


def reload(serving: Serving, says: str = "configuration reloaded") -> None:
    seen = serving.log().count(says)
    serving.signal(signal.SIGHUP)
    serving.until_logged(says, seen + 1)


def test_every_field_at_fault_is_named(prepare: Serve, tmp_path: Path) -> None:
    serving = serve_shaped(prepare, tmp_path)
    reply = serving.post(
        "/jobs", {"type": "resize", "payload": sized(5, 0, "x") | {"itens": 1}, "priority": 17}
    )
    assert reply.status == 400
    assert reply.document["code"] == "invalid_request"
    assert {fault["field"]: fault["message"] for fault in reply.document["errors"]} == {
        "priority": "must be a whole number from 0 (last) to 9 (first)",
        "payload.items[1].width": "must be at least 1",
        "payload.items[2].width": "must be a whole number, not text",
        "payload.itens": 'is not known here (did you mean "items"?)',
    }
    assert serving.finish("resize", payload=sized(5))["status"] == "completed"
    assert serving.finish("resize")["payload"] == {}
    assert serving.finish("free", payload=sized(0))["status"] == "completed"


def test_a_batch_with_one_bad_payload_stores_none(prepare: Serve, tmp_path: Path) -> None:
    serving = serve_shaped(prepare, tmp_path)
    jobs = [{"type": "resize", "payload": sized(width)} for width in (1, 2, 3, 0, 101)]
    reply = serving.post("/jobs/batch", {"jobs": jobs})
    assert reply.status == 400
    assert reply.fields == ["jobs[3].payload.items[0].width", "jobs[4].payload.items[0].width"]
    assert serving.all_jobs() == []
    bad = [{"type": "resize", "payload": sized(*[0] * 50)}] * 50
    assert len(serving.post("/jobs/batch", {"jobs": bad}).fields) == 20
    assert serving.post("/jobs/batch", {"jobs": jobs[:3]}).status == 201


def test_a_payload_that_is_too_deep_is_refused(prepare: Serve, tmp_path: Path) -> None:
    serving = serve_shaped(prepare, tmp_path)
    for levels, field in ((129, "payload"), (900, "payload"), (5000, "body")):
        deep = b'{"type": "resize", "payload": ' + b"[" * levels + b"]" * levels + b"}"
        reply = serving.ask("POST", "/jobs", deep)
        assert (reply.status, reply.fields) == (400, [field])


def test_a_repeated_key_finds_its_job(prepare: Serve, tmp_path: Path) -> None:
    serving = serve_shaped(prepare, tmp_path)
    job = {"type": "resize", "payload": sized(50), "idempotency_key": "once"}
    first = serving.post("/jobs", job)
    again = serving.post("/jobs", job)
    assert (first.status, again.status) == (201, 200)
    assert again.document["id"] == first.document["id"]


def test_a_reload_reads_the_schema_again(prepare: Serve, tmp_path: Path) -> None:
    serving = serve_shaped(prepare, tmp_path)
    assert serving.post("/jobs", {"type": "resize", "payload": sized(150)}).status == 400
    write_schema(tmp_path, 200)
    assert serving.post("/jobs", {"type": "resize", "payload": sized(150)}).status == 400
    reload(serving)
    assert serving.finish("resize", payload=sized(150))["status"] == "completed"
    (tmp_path / "resize.json").write_text('{"$ref": "http://example.com/s.json"}')
    reload(serving, "configuration not reloaded")
    assert "leads out of the schema: nothing is fetched" in serving.log()
    assert serving.finish("resize", payload=sized(150))["status"] == "completed"


def test_a_daemon_without_schemas_does_not_pay_for_them(prepare: Serve, tmp_path: Path) -> None:
    serving = prepare(PLAIN).start()
    serving.finish("free")
    assert LIBRARY not in libraries(serving)
    write_schema(tmp_path, 100)
    serving.configure(SHAPED)
    reload(serving)
    assert LIBRARY in libraries(serving)


def jobqueued(serving: Serving, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(serving.place)}
    return subprocess.run(
        [sys.executable, "-m", "jobqueued", *words, "--config", str(serving.config_path)],
        env=environment, cwd=serving.place, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip


def test_the_command_line_shows_each_fault(prepare: Serve, tmp_path: Path) -> None:
    serving = serve_shaped(prepare, tmp_path)
    done = jobqueued(serving, "submit", "resize", json.dumps(sized(0, 101)))
    assert done.returncode != 0
    assert "payload.items[0].width" in done.stderr
    assert "payload.items[1].width" in done.stderr
    assert "must be at most 100" in done.stderr
    (tmp_path / "resize.json").write_text('{"type": "strng"}')
    checked = jobqueued(serving, "check")
    assert checked.returncode == 78
    assert "types.resize.payload_schema" in checked.stderr + checked.stdout
