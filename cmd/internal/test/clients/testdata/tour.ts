// Uses the package opsgate-client. "tour" calls each kind of operation, "errors" provokes errors, "settings" uses wrong settings, "answers"
// meets unusual answers, "pace" sends requests and prints the errors, "webhook" verifies.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { APIError, Client, type IncidentInput, WebhookError, newRetryingFetch, verifyWebhook } from "opsgate-client";

const { OPSCTL_URL, OPSCTL_TOKEN, OPSCTL_READ_TOKEN, OPSCTL_NO_PLAN_TOKEN, WEBHOOK_SECRET } = process.env;

const newClient = (token = OPSCTL_TOKEN!) => new Client({ baseUrl: OPSCTL_URL!, token });

async function count(items: AsyncIterable<unknown>) {
  let n = 0;
  for await (const _ of items) n++;
  return n;
}

async function tour() {
  const client = newClient();
  const { scopes } = await client.me();
  const servers = await client.listServers();
  const server = await client.getServer(servers.find(({ name }) => name === "db-primary")!.id);
  const anHourAgo = new Date(Date.now() - 3_600_000);
  const monitors = await client.listMonitors();
  const checks = await client.listMonitorChecks(monitors[0].id, { since: anHourAgo.toISOString() });
  const pages = await client.listStatusPages();
  const page = await client.getStatusPage(pages[0].id);
  const opened: IncidentInput = { title: "Deployment failed", status: "investigating", impact: "minor", message: "The deployment failed." };
  const idempotencyKey = randomUUID();
  const created = await client.createIncident(opened, { idempotencyKey });
  const again = await client.createIncident(opened, { idempotencyKey });
  await client.addIncidentUpdate(created.id, { status: "resolved", message: "The deployment succeeded.", notifySubscribers: false });
  const incident = await client.getIncident(created.id);
  const metrics = await client.getServerMetrics(server.id, { range: "1h" });
  return {
    scopes: scopes.length,
    servers: servers.length,
    server: server.name,
    groups: (await client.listServerGroups()).length,
    scheduledCommands: (await client.listServerScheduledCommands(server.id)).length,
    commands: await count(client.allServerCommands(server.id, { pageSize: 10 })),
    monitors: monitors.length,
    pages: pages.length,
    components: page.components.length,
    pageIncidents: (await client.listStatusPageIncidents(page.id)).length,
    incidents: await count(client.allIncidents({ limit: 50 })),
    auditEntries: await count(client.allAudit({ action: "incident.", limit: 50 })),
    updates: incident.updates.length,
    replayed: again.id === created.id,
    resolved: incident.status === "resolved" && new Date(incident.resolvedAt!) >= new Date(incident.createdAt),
    recent: new Date(metrics.points.at(-1)!.at) > anHourAgo && new Date(checks[0].checkedAt) > anHourAgo,
  };
}

async function errors() {
  const client = newClient();
  const reader = newClient(OPSCTL_READ_TOKEN!);
  const incident = { title: "T", status: "resolved", impact: "none", message: "M" } as const;
  const found: string[] = [];
  for (const call of [
    () => newClient("ops_live_unknown").me(),
    () => reader.createIncident(incident),
    () => newClient(OPSCTL_NO_PLAN_TOKEN!).me(),
    () => client.getServer(randomUUID()),
    () => client.createIncident({ ...incident, message: "M".repeat(200_000) }),
    () => client.createIncident({ ...incident, title: "", message: "" }),
    () => reader.me(),
  ]) {
    const error: unknown = await call().catch((error: unknown) => error);
    if (!(error instanceof APIError)) throw error;
    let text = Object.keys(error.details).sort().join();
    if (error.status === 403) text = Object.entries(error.details).map((entry) => entry.join("=")).join();
    if (error.status === 429) text = `retry-after=${error.retryAfter}`;
    found.push(`${error.status} ${error.code} ${text}`.trim() + (error.requestId ? " with a request id" : ""));
  }
  return found;
}

async function settings(wrong: string) {
  const found = [...JSON.parse(wrong).map(([baseUrl, token]: string[]) => () => new Client({ baseUrl, token })), () => verifyWebhook("no secret", {}, "")].map(
    (call) => {
      try {
        call();
      } catch (error) {
        return (error as Error).message;
      }
    },
  );
  const error: unknown = await newClient("secret").me().catch((error: unknown) => error);
  found.push(`unsafe ${/certificate/.test(String((error as Error).cause))}`);
  return found;
}

async function answers() {
  const client = newClient();
  const hasty = new Client({ baseUrl: OPSCTL_URL!, token: OPSCTL_TOKEN!, timeout: 0.5 });
  const found = [(await newClient().me()).tokenId, String((await hasty.listServerGroups()).length)];
  found.push(`[${await count(client.allIncidents())}, ${await count(client.allIncidents())}]`);
  found.push(String((await newClient().listStatusPages()).length));
  const patient = new Client({ baseUrl: OPSCTL_URL!, token: OPSCTL_TOKEN!, maxWait: 2 });
  const denial: unknown = await patient.getServer("id").catch((error: unknown) => error);
  const error: unknown = await client.listServers().catch((error: unknown) => error);
  if (!(denial instanceof APIError) || !(error instanceof APIError)) throw error;
  found.push(String(denial.status), `${error.status} ${error.message.split(/: | \{/)[1]} ${error.requestId}`);
  const conditional = await newRetryingFetch()(new URL("v1/monitors", OPSCTL_URL), { headers: { "If-None-Match": '"a"' } });
  return [...found, String(conditional.status)];
}

async function pace(requests: string, atOnce: string) {
  const client = newClient();
  const failed: string[] = [];
  const caller = async () => {
    for (let n = Number(requests); n > 0; n--) await client.me().catch((error: unknown) => failed.push(String(error)));
  };
  await Promise.all(Array.from({ length: Number(atOnce) }, caller));
  return failed;
}

function webhook(...paths: string[]) {
  return paths.map((path) => {
    const { headers, body } = JSON.parse(readFileSync(path, "utf8"));
    try {
      const payload = verifyWebhook(WEBHOOK_SECRET!, headers, body);
      return `${payload.type} ${payload.data.incident.title}`;
    } catch (error) {
      if (error instanceof WebhookError) return error.message;
      throw error;
    }
  });
}

const commands: Record<string, (...paths: string[]) => unknown> = { tour, errors, settings, answers, pace, webhook };
console.log(JSON.stringify(await commands[process.argv[2]](...process.argv.slice(3))));
