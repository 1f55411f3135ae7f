/**
 * Calls each kind of operation of the API by openapi-fetch, with the types of openapi-typescript.
 *
 * "tour" calls them; "errors" provokes errors and decodes each. Both print what they found as JSON. OPSCTL_URL is the address of
 * the API, OPSCTL_TOKEN a token with all scopes, OPSCTL_READ_TOKEN one without incidents:write, OPSCTL_NO_PLAN_TOKEN one of a team without
 * the plan.
 */
import { randomUUID } from "node:crypto";
import createClient from "openapi-fetch";
import type { components, paths } from "./api";
import { newRetryingFetch } from "./opsgate-client/retry.js";
import { allPages, ok } from "./pages";

const { OPSCTL_URL, OPSCTL_TOKEN, OPSCTL_READ_TOKEN, OPSCTL_NO_PLAN_TOKEN } = process.env;

const newClient = (token: string | undefined, fetch = globalThis.fetch) =>
  createClient<paths>({ baseUrl: OPSCTL_URL, headers: { Authorization: `Bearer ${token}` }, fetch });

async function tour() {
  const client = newClient(OPSCTL_TOKEN, newRetryingFetch());
  const me = await ok(client.GET("/v1/me"));

  const servers = await ok(client.GET("/v1/servers"));
  const groups = await ok(client.GET("/v1/server-groups"));
  const { id } = servers.find((server) => server.name === "db-primary")!;
  const params = { path: { id } };
  const server = await ok(client.GET("/v1/servers/{id}", { params }));
  const metrics = await ok(client.GET("/v1/servers/{id}/metrics", { params: { ...params, query: { range: "1h" } } }));
  const scheduled = await ok(client.GET("/v1/servers/{id}/scheduled-commands", { params }));
  const commands: components["schemas"]["Command"][] = [];
  for (let page = 1, total = 1; commands.length < total; page++) {
    const query = { page, pageSize: 10 };
    const answer = await ok(client.GET("/v1/servers/{id}/commands", { params: { ...params, query } }));
    commands.push(...answer.items);
    total = answer.total;
  }

  const anHourAgo = new Date(Date.now() - 3_600_000);
  const monitors = await ok(client.GET("/v1/monitors"));
  const since = { path: { id: monitors[0].id }, query: { since: anHourAgo.toISOString() } };
  const checks = await ok(client.GET("/v1/monitors/{id}/checks", { params: since }));
  const pages = await ok(client.GET("/v1/status-pages"));
  const page = await ok(client.GET("/v1/status-pages/{id}", { params: { path: { id: pages[0].id } } }));
  const pageIncidents = await ok(client.GET("/v1/status-pages/{id}/incidents", { params: { path: { id: page.id } } }));

  const creation = {
    params: { header: { "Idempotency-Key": randomUUID() } },
    body: { title: "Deployment failed", status: "investigating", impact: "minor", message: "The deployment failed." },
  } as const;
  const created = await ok(client.POST("/v1/incidents", creation));
  const again = await client.POST("/v1/incidents", creation);
  const path = { id: created.id };
  await ok(
    client.POST("/v1/incidents/{id}/updates", {
      params: { path, header: { "Idempotency-Key": randomUUID() } },
      body: { status: "resolved", message: "The deployment succeeded.", notifySubscribers: false },
    }),
  );
  const incident = await ok(client.GET("/v1/incidents/{id}", { params: { path } }));

  const incidents = await allPages((cursor) => client.GET("/v1/incidents", { params: { query: { cursor } } }));
  const ofIncidents = "incident.";
  const entries = await allPages((cursor) => client.GET("/v1/audit", { params: { query: { action: ofIncidents, cursor } } }));
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
    replayed: again.data?.id === created.id && again.response.headers.get("Idempotent-Replayed") === "true",
    resolved: incident.status === "resolved" && new Date(incident.resolvedAt!) >= new Date(incident.createdAt),
    recent: new Date(metrics.points.at(-1)!.at) > anHourAgo && new Date(checks[0].checkedAt) > anHourAgo,
  };
}

async function errors() {
  const client = newClient(OPSCTL_TOKEN);
  const body = { title: "T", status: "resolved", impact: "none", message: "M" } as const;
  const id = randomUUID();

  const unknown = await newClient("ops_live_unknown").GET("/v1/me");
  const reader = await newClient(OPSCTL_READ_TOKEN).POST("/v1/incidents", { body });
  const noPlan = await newClient(OPSCTL_NO_PLAN_TOKEN).GET("/v1/me");
  const missing = await client.GET("/v1/servers/{id}", { params: { path: { id } } });
  const large = await client.POST("/v1/incidents", { body: { ...body, message: "M".repeat(200_000) } });
  const text = await client.POST("/v1/incidents", { body, headers: { "Content-Type": "text/plain" } });
  const invalid = await client.POST("/v1/incidents", { body: { ...body, title: "", message: "" } });
  let limited = await newClient(OPSCTL_READ_TOKEN).GET("/v1/me");
  while (limited.data) {
    limited = await newClient(OPSCTL_READ_TOKEN).GET("/v1/me");
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
    `${limited.error?.code} retry-after=${limited.response.headers.get("Retry-After")}`,
  ];
}

const commands: Record<string, () => Promise<unknown>> = { tour, errors };
for (const command of process.argv.slice(2)) {
  console.log(JSON.stringify(await commands[command]()));
}
