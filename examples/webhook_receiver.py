# Receives webhooks of jobqueued and checks their signature. Standard library only.
#
#     [types.notify]
#     http = { url = "http://127.0.0.1:9000/hooks/notify", secret_file = "notify.secret" }
#
# notify.secret holds `whsec_` and a key in base64, such as `openssl rand -base64 32` prints.
#
#     python3 webhook_receiver.py notify.secret 9000
from __future__ import annotations

import base64
import hashlib
import hmac
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TOLERANCE_SECONDS = 300
handled: dict[str, object] = {}


class Receiver(BaseHTTPRequestHandler):
    """Answers 2xx when the job is done, 4xx when it never will be, 5xx to be asked again."""

    secret = b""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.is_signed(body):
            self.answer(401, {"error": "the signature does not match"})
            return
        job_id = self.headers["webhook-id"]
        if job_id not in handled:  # the same job may come twice: do its work once
            handled[job_id] = {"greeting": f"Hello, {json.loads(body)['name']}!"}
        self.answer(200, handled[job_id])

    def is_signed(self, body: bytes) -> bool:
        job_id, sent_at = self.headers["webhook-id"], self.headers["webhook-timestamp"]
        if not sent_at or abs(time.time() - int(sent_at)) > TOLERANCE_SECONDS:
            return False
        content = f"{job_id}.{sent_at}.".encode() + body
        digest = hmac.new(self.secret, content, hashlib.sha256).digest()
        ours = f"v1,{base64.b64encode(digest).decode()}"
        theirs = self.headers.get("webhook-signature", "").split()
        return any(hmac.compare_digest(ours, signature) for signature in theirs)

    def answer(self, status: int, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    text = Path(sys.argv[1]).read_text().strip()
    Receiver.secret = base64.b64decode(text.removeprefix("whsec_"))
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Receiver).serve_forever()
