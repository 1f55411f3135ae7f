"""Calls each kind of operation of the API with the client that openapi-python-client generates.

"tour" calls them; "errors" provokes errors and decodes each. Both print what they found as JSON. OPSCTL_URL is the address of the
API, OPSCTL_TOKEN a token with all scopes, OPSCTL_READ_TOKEN one without incidents:write, OPSCTL_NO_PLAN_TOKEN one of a team without the
plan.
"""

import json
import os
import sys
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from ops.api.audit_log import v_1_list_audit as list_audit
from ops.api.incidents import v_1_add_incident_update as add_update
from ops.api.incidents import v_1_create_incident as create_incident
from ops.api.incidents import v_1_get_incident as get_incident
from ops.api.incidents import v_1_list_incidents as list_incidents
from ops.api.monitors import v_1_list_monitor_checks as list_checks
from ops.api.monitors import v_1_list_monitors as list_monitors
from ops.api.servers import v_1_get_server as get_server
from ops.api.servers import v_1_get_server_metrics as get_metrics
from ops.api.servers import v_1_list_server_commands as list_commands
from ops.api.servers import v_1_list_server_groups as list_groups
from ops.api.servers import v_1_list_server_scheduled_commands as list_scheduled
from ops.api.servers import v_1_list_servers as list_servers
from ops.api.status_pages import v_1_get_status_page as get_page
from ops.api.status_pages import v_1_list_status_page_incidents as list_page_incidents
from ops.api.status_pages import v_1_list_status_pages as list_pages
from ops.api.token import v_1_me as get_me
from ops.client import AuthenticatedClient
from ops.models import IncidentImpact, IncidentInput, IncidentStatus, IncidentUpdateInput, MetricsRange
from ops.types import UNSET, Response, Unset
from opsgate_client.retry import ATTEMPT_TIMEOUT, RetryingTransport


class Refused(Exception):
    """The API refused a request."""


def ok(response: Response[Any]) -> Any:
    """Returns the decoded body of a response."""
    if response.status_code != 200:
        raise Refused(f"{response.status_code}: {response.content.decode(errors='replace')}")
    return response.parsed


def all_pages(page: Callable[[str | Unset], Response[Any]]) -> list[Any]:
    """Returns the items of all pages. A cursor that the API ignores restarts the list at its first page."""
    items: list[Any] = []
    cursor: str | Unset = UNSET
    while True:
        response = page(cursor)
        body = ok(response)
        if cursor and response.headers.get("Cursor-Status") == "ignored":
            items = []
        items += body.items
        if body.next_cursor is None:
            return items
        cursor = body.next_cursor


def new_client(token: str, **httpx_args: Any) -> AuthenticatedClient:
    """Returns a client that sends the token with each request."""
    timeout = httpx.Timeout(ATTEMPT_TIMEOUT)
    return AuthenticatedClient(base_url=os.environ["OPSCTL_URL"], token=token, timeout=timeout, httpx_args=httpx_args)


def tour() -> dict[str, Any]:
    client = new_client(os.environ["OPSCTL_TOKEN"], transport=RetryingTransport())
    me = ok(get_me.sync_detailed(client=client))

    servers = ok(list_servers.sync_detailed(client=client))
    groups = ok(list_groups.sync_detailed(client=client))
    database = next(server for server in servers if server.name == "db-primary")
    server = ok(get_server.sync_detailed(database.id, client=client))
    metrics = ok(get_metrics.sync_detailed(server.id, client=client, range_=MetricsRange.LAST_HOUR))
    scheduled = ok(list_scheduled.sync_detailed(server.id, client=client))
    commands: list[Any] = []
    page, total = 1, 1
    while len(commands) < total:
        answer = ok(list_commands.sync_detailed(server.id, client=client, page=page, page_size=10))
        commands += answer.items
        page, total = page + 1, answer.total

    an_hour_ago = datetime.now(UTC) - timedelta(hours=1)
    monitors = ok(list_monitors.sync_detailed(client=client))
    checks = ok(list_checks.sync_detailed(monitors[0].id, client=client, since=an_hour_ago))
    pages = ok(list_pages.sync_detailed(client=client))
    status_page = ok(get_page.sync_detailed(pages[0].id, client=client))
    page_incidents = ok(list_page_incidents.sync_detailed(status_page.id, client=client))

    body = IncidentInput(
        title="Deployment failed",
        status=IncidentStatus.INVESTIGATING,
        impact=IncidentImpact.MINOR,
        message="The deployment failed.",
    )
    key = str(uuid.uuid4())
    created = ok(create_incident.sync_detailed(client=client, body=body, idempotency_key=key))
    again = create_incident.sync_detailed(client=client, body=body, idempotency_key=key)
    update = IncidentUpdateInput(status=IncidentStatus.RESOLVED, message="The deployment succeeded.", notify_subscribers=False)
    ok(add_update.sync_detailed(created.id, client=client, body=update, idempotency_key=str(uuid.uuid4())))
    incident = ok(get_incident.sync_detailed(created.id, client=client))

    incidents = all_pages(lambda cursor: list_incidents.sync_detailed(client=client, cursor=cursor))
    entries = all_pages(lambda cursor: list_audit.sync_detailed(client=client, action="incident.", cursor=cursor))
    return {
        "scopes": len(me.scopes),
        "servers": len(servers),
        "server": server.name,
        "groups": len(groups),
        "scheduledCommands": len(scheduled),
        "commands": len(commands),
        "monitors": len(monitors),
        "pages": len(pages),
        "components": len(status_page.components),
        "pageIncidents": len(page_incidents),
        "incidents": len(incidents),
        "auditEntries": len(entries),
        "updates": len(incident.updates),
        "replayed": ok(again).id == created.id and again.headers.get("Idempotent-Replayed") == "true",
        "resolved": incident.status == IncidentStatus.RESOLVED and incident.resolved_at >= incident.created_at,
        "recent": metrics.points[-1].at > an_hour_ago and checks[0].checked_at > an_hour_ago,
    }


def as_text(request: httpx.Request) -> None:
    request.headers["Content-Type"] = "text/plain"


def errors() -> list[str]:
    token = os.environ["OPSCTL_TOKEN"]
    client, reader = new_client(token), new_client(os.environ["OPSCTL_READ_TOKEN"])
    texter = new_client(token, event_hooks={"request": [as_text]})
    status, impact = IncidentStatus.RESOLVED, IncidentImpact.NONE
    body = IncidentInput(title="T", status=status, impact=impact, message="M")
    long_body = IncidentInput(title="T", status=status, impact=impact, message="M" * 200_000)
    empty = IncidentInput(title="", status=status, impact=impact, message="")

    unknown: Any = get_me.sync(client=new_client("ops_live_unknown"))
    no_scope: Any = create_incident.sync(client=reader, body=body)
    no_plan: Any = get_me.sync(client=new_client(os.environ["OPSCTL_NO_PLAN_TOKEN"]))
    missing: Any = get_server.sync(uuid.uuid4(), client=client)
    large: Any = create_incident.sync(client=client, body=long_body)
    text: Any = create_incident.sync(client=texter, body=body)
    invalid: Any = create_incident.sync(client=client, body=empty)
    while (limited := get_me.sync_detailed(client=reader)).status_code != 429:
        pass
    return [
        unknown.code,
        f"{no_scope.code} required={no_scope.details.required}",
        f"{no_plan.code} requiredPlan={no_plan.details.required_plan}",
        missing.code,
        large.code,
        text.code,
        f"{invalid.code} {','.join(sorted(invalid.details.additional_properties))}",
        f"{limited.parsed.code} retry-after={limited.headers['Retry-After']}",
    ]


if __name__ == "__main__":
    for command in sys.argv[1:]:
        print(json.dumps({"tour": tour, "errors": errors}[command]()))
