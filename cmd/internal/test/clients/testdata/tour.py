"""Uses the package opsgate-client.

"tour" calls each kind of operation, "errors" provokes errors, "settings" uses wrong settings, "answers" meets unusual answers, "pace"
sends requests and prints the errors, "webhook" verifies.
"""

import json
import os
import sys
import traceback
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import httpx

from opsgate_client import APIError, Client, RetryingTransport, WebhookError, verify_webhook


def new_client(token: str = "OPSCTL_TOKEN") -> Client:
    return Client(os.environ["OPSCTL_URL"], os.environ.get(token, token))


def tour() -> dict[str, object]:
    with new_client() as client:
        scopes = client.me().scopes
        servers = client.list_servers()
        server = client.get_server(next(server for server in servers if server.name == "db-primary").id)
        an_hour_ago = datetime.now(UTC) - timedelta(hours=1)
        monitors = client.list_monitors()
        checks = client.list_monitor_checks(monitors[0].id, since=an_hour_ago)
        page = client.get_status_page(client.list_status_pages()[0].id)
        opened = dict(title="Deployment failed", status="investigating", impact="minor", message="M", idempotency_key=str(uuid.uuid4()))
        created = client.create_incident(**opened)
        again = client.create_incident(**opened)
        client.add_incident_update(created.id, status="resolved", message="The deployment succeeded.", notify_subscribers=False)
        incident = client.get_incident(created.id)
        return {
            "scopes": len(scopes),
            "servers": len(servers),
            "server": server.name,
            "groups": len(client.list_server_groups()),
            "scheduledCommands": len(client.list_server_scheduled_commands(server.id)),
            "commands": len(list(client.all_server_commands(server.id, page_size=10))),
            "monitors": len(monitors),
            "pages": len(client.list_status_pages()),
            "components": len(page.components),
            "pageIncidents": len(client.list_status_page_incidents(page.id)),
            "incidents": len(list(client.all_incidents(limit=50))),
            "auditEntries": len(list(client.all_audit(action="incident.", limit=50))),
            "updates": len(incident.updates),
            "replayed": again.id == created.id,
            "resolved": incident.status == "resolved" and incident.resolved_at >= incident.created_at,
            "recent": client.get_server_metrics(server.id, range="1h").points[-1].at > an_hour_ago and checks[0].checked_at > an_hour_ago,
        }


def errors() -> list[str]:
    client, reader = new_client(), new_client("OPSCTL_READ_TOKEN")
    incident = dict(title="T", status="resolved", impact="none", message="M")
    found = []
    for call in (
        lambda: new_client("ops_live_unknown").me(),
        lambda: reader.create_incident(**incident),
        lambda: new_client("OPSCTL_NO_PLAN_TOKEN").me(),
        lambda: client.get_server(str(uuid.uuid4())),
        lambda: client.create_incident(**{**incident, "message": "M" * 200_000}),
        lambda: client.create_incident(title="", status="resolved", impact="none", message=""),
        lambda: reader.me(),
    ):
        try:
            call()
        except APIError as error:
            text = {403: ",".join(f"{k}={v}" for k, v in error.details.items()), 429: f"retry-after={error.retry_after}"}
            details = text.get(error.status, ",".join(sorted(error.details)))
            found.append(f"{error.status} {error.code} {details}".strip() + (" with a request id" if error.request_id else ""))
    return found


def settings() -> list[str]:
    found = []
    for url, token in json.loads(sys.argv[2]):
        try:
            Client(url, token)
        except ValueError as error:
            found.append(str(error))
    try:
        verify_webhook("no secret", {}, b"")
    except ValueError as error:
        found.append(str(error))
    try:
        new_client("secret").me()
    except httpx.TransportError as error:
        found.append(f"unsafe {'certificate' in str(error)}".lower())
    return found


def answers() -> list[str]:
    url, token = os.environ["OPSCTL_URL"], os.environ["OPSCTL_TOKEN"]
    with new_client() as client, Client(url, token, timeout=0.5) as hasty:
        found = [new_client().me().token_id, str(len(hasty.list_server_groups())), str([len(list(client.all_incidents())) for _ in range(2)])]
        found.append(str(len(new_client().list_status_pages())))
        try:
            Client(url, token, max_wait=2).get_server("id")
        except APIError as error:
            found.append(str(error.status))
        try:
            client.list_servers()
        except APIError as error:
            found.append(f"{error.status} {error.message} {error.request_id}")
    with httpx.Client(transport=RetryingTransport(proxy=os.environ["HTTP_PROXY"])) as conditional:
        found.append(str(conditional.get(url + "/v1/monitors", headers={"If-None-Match": '"a"'}).status_code))
        try:
            conditional.get(url + "/v1/monitors", headers={"Authorization": "Bearer secret\n"})
        except httpx.TransportError:
            found.append(traceback.format_exc().splitlines()[-1].replace("httpx.LocalProtocolError: ", ""))
    return found


def pace() -> list[str]:
    requests, at_once = map(int, sys.argv[2:])
    with new_client() as client, ThreadPoolExecutor(at_once) as pool:
        calls = [pool.submit(client.me) for _ in range(requests * at_once)]
        return [str(error) for call in calls if (error := call.exception())]


def webhook() -> list[str]:
    found = []
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as file:
            sent = json.load(file)
        try:
            payload = verify_webhook(os.environ["WEBHOOK_SECRET"], sent["headers"], sent["body"].encode())
            found.append(f"{payload['type']} {payload['data']['incident']['title']}")
        except WebhookError as error:
            found.append(str(error))
    return found


commands = {"tour": tour, "errors": errors, "settings": settings, "answers": answers, "pace": pace, "webhook": webhook}
print(json.dumps(commands[sys.argv[1]]()))
