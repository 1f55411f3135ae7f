"""Verifies webhooks of status pages: Standard Webhooks 1.0."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any

HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")
SECRET_FORM = "the secret of a webhook is whsec_ and base64, like whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
TOLERANCE = 300  # seconds


class WebhookError(Exception):
    """A request is no webhook of the holder of the secret, or is older than five minutes: answer 401."""


def verify_webhook(secret: str, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """Returns the payload of a webhook. body is the bytes as they came. Drop repeats by the header webhook-id."""
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError:
        key = b""
    if not key:
        raise ValueError(SECRET_FORM)
    lower = {name.lower(): value for name, value in headers.items()}
    for name in HEADERS:
        if not lower.get(name):
            raise WebhookError(f"the header {name} is missing")
    id, sent, given = (lower[name] for name in HEADERS)
    signature = b"v1," + base64.b64encode(hmac.digest(key, f"{id}.{sent}.".encode() + body, hashlib.sha256))
    if not any(hmac.compare_digest(signature, text.encode()) for text in given.split()):
        raise WebhookError("no signature matches")
    if not sent.isdecimal() or abs(time.time() - int(sent)) > TOLERANCE:
        raise WebhookError("the timestamp is not of now")
    return json.loads(body)
