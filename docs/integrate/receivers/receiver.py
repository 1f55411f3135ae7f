"""Receives the webhooks of a status page, and processes each message once."""

import os
from http.server import BaseHTTPRequestHandler, HTTPServer

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

webhook = Webhook(os.environ["WEBHOOK_SECRET"])
processed = set()  # in production: a unique column in the database, written in the transaction of the effect


def process(payload):
    incident = payload["data"]["incident"]
    print(payload["type"], incident["id"], incident["status"], incident["title"], flush=True)


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(min(int(self.headers["content-length"]), 1 << 20))
        try:
            payload = webhook.verify(body, dict(self.headers))  # the bytes as they came: parsed and encoded again, they would differ
        except (WebhookVerificationError, ValueError):
            self.answer(401)
            return
        if self.headers["webhook-id"] not in processed:
            process(payload)
            processed.add(self.headers["webhook-id"])
        self.answer(204)  # also to a repeat, else it comes again

    def answer(self, status):
        self.send_response(status)
        self.end_headers()


server = HTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8000"))), Receiver)
print("listening on port", server.server_port, flush=True)
server.serve_forever()
