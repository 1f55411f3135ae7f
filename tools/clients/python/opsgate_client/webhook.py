"""Verifies webhooks of status pages: Standard Webhooks 1.0."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any

TOLERANCE = 300  # seconds


class WebhookError(Exception):
    """A request is no webhook of the holder of the secret, or is older than five minutes: answer 401."""


def verify_webhook(secret: str, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """Returns the payload of a webhook. body is the bytes as they came. Drop repeats by the header webhook-id."""
    lower = {name.lower(): value for name, value in headers.items()}
    id, sent = lower.get("webhook-id", ""), lower.get("webhook-timestamp", "")
    key = base64.b64decode(secret.removeprefix("whsec_"))
    if not key:
        raise ValueError("the secret is empty")
    signature = b"v1," + base64.b64encode(hmac.digest(key, f"{id}.{sent}.".encode() + body, hashlib.sha256))
    if not any(hmac.compare_digest(signature, given.encode()) for given in lower.get("webhook-signature", "").split()):
        raise WebhookError("no signature matches")
    if not sent.isdecimal() or abs(time.time() - int(sent)) > TOLERANCE:
        raise WebhookError("the timestamp is not of now")
    return json.loads(body)
