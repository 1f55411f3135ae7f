/**
 * Calls each kind of operation of the API with the client that @hey-api/openapi-ts generates.
 *
 * "tour" calls them; "errors" provokes errors and decodes each. Both print what they found as JSON. OPSCTL_URL is the address of
 * the API, OPSCTL_TOKEN a token with all scopes, OPSCTL_READ_TOKEN one without incidents:write, OPSCTL_NO_PLAN_TOKEN one of a team without
 * the plan.
 */
import { randomUUID } from "node:crypto";
import * as ops from "./ops";
import { createClient } from "./ops/client";
import { newRetryingFetch } from "./opsgate-client/retry.js";
import { allPages, ok } from "./pages";

const { OPSCTL_URL, OPSCTL_TOKEN, OPSCTL_READ_TOKEN, OPSCTL_NO_PLAN_TOKEN } = process.env;

const newClient = (token: string | undefined, fetch = globalThis.fetch) => createClient({ baseUrl: OPSCTL_URL, auth: token, fetch });

async function tour() {
  const client = newClient(OPSCTL_TOKEN, newRetryingFetch());
  const me = await ok(ops.v1Me({ client }));

  const servers = await ok(ops.v1ListServers({ client }));
  const groups = await ok(ops.v1ListServerGroups({ client }));
  const { id } = servers.find((server) => server.name === "db-primary")!;
  const server = await ok(ops.v1GetServer({ client, path: { id } }));
  const metrics = await ok(ops.v1GetServerMetrics({ client, path: { id }, query: { range: "1h" } }));
  const scheduled = await ok(ops.v1ListServerScheduledCommands({ client, path: { id } }));
  const commands: ops.Command[] = [];
  for (let page = 1, total = 1; commands.length < total; page++) {
    const answer = await ok(ops.v1ListServerCommands({ client, path: { id }, query: { page, pageSize: 10 } }));
    commands.push(...answer.items);
    total = answer.total;
  }

  const anHourAgo = new Date(Date.now() - 3_600_000);
  const monitors = await ok(ops.v1ListMonitors({ client }));
  const since = anHourAgo.toISOString();
  const checks = await ok(ops.v1ListMonitorChecks({ client, path: { id: monitors[0].id }, query: { since } }));
  const pages = await ok(ops.v1ListStatusPages({ client }));
  const page = await ok(ops.v1GetStatusPage({ client, path: { id: pages[0].id } }));
  const pageIncidents = await ok(ops.v1ListStatusPageIncidents({ client, path: { id: page.id } }));

  const creation = {
    client,
    headers: { "Idempotency-Key": randomUUID() },
    body: { title: "Deployment failed", status: "investigating", impact: "minor", message: "The deployment failed." },
  } as const;
  const created = await ok(ops.v1CreateIncident(creation));
  const again = await ops.v1CreateIncident(creation);
  const path = { id: created.id };
  await ok(
    ops.v1AddIncidentUpdate({
      client,
      path,
      headers: { "Idempotency-Key": randomUUID() },
      body: { status: "resolved", message: "The deployment succeeded.", notifySubscribers: false },
    }),
  );
  const incident = await ok(ops.v1GetIncident({ client, path }));

  const incidents = await allPages((cursor) => ops.v1ListIncidents({ client, query: { cursor } }));
  const entries = await allPages((cursor) => ops.v1ListAudit({ client, query: { action: "incident.", cursor } }));
  return {
    scopes: me.scopes.length,
    servers: servers.length,
    server: server.name,
    groups: groups.length,
    scheduledCommands: scheduled.length,
    commands: commands.length,
    monitors: monitors.length,
    pages: pages.length,
    components: page.components.length,
    pageIncidents: pageIncidents.length,
    incidents: incidents.length,
    auditEntries: entries.length,
    updates: incident.updates.length,
    replayed: again.data?.id === created.id && again.response?.headers.get("Idempotent-Replayed") === "true",
    resolved: incident.status === "resolved" && new Date(incident.resolvedAt!) >= new Date(incident.createdAt),
    recent: new Date(metrics.points.at(-1)!.at) > anHourAgo && new Date(checks[0].checkedAt) > anHourAgo,
  };
}

async function errors() {
  const client = newClient(OPSCTL_TOKEN);
  const body = { title: "T", status: "resolved", impact: "none", message: "M" } as const;
  const id = randomUUID();

  const unknown = await ops.v1Me({ client: newClient("ops_live_unknown") });
  const reader = await ops.v1CreateIncident({ client: newClient(OPSCTL_READ_TOKEN), body });
  const noPlan = await ops.v1Me({ client: newClient(OPSCTL_NO_PLAN_TOKEN) });
  const missing = await ops.v1GetServer({ client, path: { id } });
  const large = await ops.v1CreateIncident({ client, body: { ...body, message: "M".repeat(200_000) } });
  const text = await ops.v1CreateIncident({ client, body, headers: { "Content-Type": "text/plain" } as Record<string, string> });
  const invalid = await ops.v1CreateIncident({ client, body: { ...body, title: "", message: "" } });
  let limited = await ops.v1Me({ client: newClient(OPSCTL_READ_TOKEN) });
  while (limited.data) {
    limited = await ops.v1Me({ client: newClient(OPSCTL_READ_TOKEN) });
  }
  // The type of an error is the union of all errors of the operation: `code` tells them apart for people, `in` for the compiler.
  const scope = reader.error && "details" in reader.error ? reader.error.details : {};
  const plan = noPlan.error && "details" in noPlan.error ? noPlan.error.details : {};
  const fields = invalid.error && "details" in invalid.error ? invalid.error.details : {};
  return [
    unknown.error?.code,
    `${reader.error?.code} required=${scope.required}`,
    `${noPlan.error?.code} requiredPlan=${plan.requiredPlan}`,
    missing.error?.code,
    large.error?.code,
    text.error?.code,
    `${invalid.error?.code} ${Object.keys(fields).sort()}`,
    `${limited.error?.code} retry-after=${limited.response?.headers.get("Retry-After")}`,
  ];
}

const commands: Record<string, () => Promise<unknown>> = { tour, errors };
for (const command of process.argv.slice(2)) {
  console.log(JSON.stringify(await commands[command]()));
}
