"""Client of the opsgate API."""

from .core import APIError
from .operations import Client
from .retry import RetryingTransport
from .webhook import WebhookError, verify_webhook

__all__ = ["APIError", "Client", "RetryingTransport", "WebhookError", "verify_webhook"]
