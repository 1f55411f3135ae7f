"""Agents of the protocol's official library for Python, at an MCP server by HTTP.

Arguments: the URL of the server, and the tokens of an agent that may write, of one that may only read, of one that may call once in a
few seconds, and one that is revoked.
"""

import asyncio
import sys
from contextlib import asynccontextmanager

import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

INCIDENT = {"title": "Checkout fails", "status": "investigating", "impact": "major", "message": "We are looking into it."}


@asynccontextmanager
async def connected(url, token, mode="auto"):
    headers = {"X-Forwarded-For": "203.0.113.9"}  # as a proxy before the server writes it
    if token:
        headers["Authorization"] = f"Bearer {token}"
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        async with Client(streamable_http_client(url, http_client=http), mode=mode) as agent:
            yield agent


async def call(agent, tool, **arguments):
    result = await agent.call_tool(tool, arguments)
    return result.is_error, result.structured_content


async def resolves(agent):
    failed, opened = await call(agent, "create_incident", **INCIDENT)
    assert not failed, opened
    failed, resolved = await call(
        agent, "add_incident_update", id=opened["id"], status="resolved", message="Fixed.", notifySubscribers=False
    )
    assert not failed and resolved["status"] == "resolved", resolved


async def main(url, writer, reader, limited, revoked):
    for mode in "auto", "legacy":  # of the protocol: without sessions, and before
        async with connected(url, writer, mode) as agent:
            assert "create_incident" in {tool.name for tool in (await agent.list_tools()).tools}
            await resolves(agent)

    async with connected(url, reader) as agent:
        assert "create_incident" not in {tool.name for tool in (await agent.list_tools()).tools}
        failed, told = await call(agent, "create_incident", **INCIDENT)
        assert failed and told["code"] == "forbidden" and told["details"]["required"] == "incidents:write", told

    async with connected(url, limited) as agent:
        waits = 0
        for _ in range(2):
            failed, told = await call(agent, "me")
            while failed:
                assert told["code"] == "rate_limited", told
                await asyncio.sleep(told["retryAfterSeconds"])
                waits += 1
                failed, told = await call(agent, "me")
        assert waits, "the agent was not limited"

    async with connected(url, revoked) as agent:
        failed, told = await call(agent, "me")
        assert failed and told["code"] == "unauthorized" and "valid API token" in told["action"], told

    try:
        async with connected(url, None):
            raise AssertionError("an agent without a token is connected")
    except* MCPError as group:
        assert "configure an API token" in str(group.exceptions), group.exceptions


asyncio.run(main(*sys.argv[1:]))
