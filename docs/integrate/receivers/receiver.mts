// Receives the webhooks of a status page, and processes each message once.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Webhook, WebhookVerificationError } from "standardwebhooks";

type Payload = { type: string; data: { incident: { id: string; status: string; title: string } } };

const webhook = new Webhook(process.env.WEBHOOK_SECRET ?? "");
const processed = new Set<string>(); // in production: a unique column in the database, written in the transaction of the effect

function handle(payload: Payload) {
  const { id, status, title } = payload.data.incident;
  console.log(payload.type, id, status, title);
}

const server = createServer((request, response) => {
  let body = "";
  request.setEncoding("utf8");
  request.on("data", (text: string) => {
    body += text;
    if (body.length > 1 << 20) request.destroy();
  });
  request.on("end", () => {
    const headers = request.headers as Record<string, string>;
    try {
      const payload = webhook.verify(body, headers) as Payload; // the text as it came: parsed and encoded again, it would differ
      if (!processed.has(headers["webhook-id"])) {
        handle(payload);
        processed.add(headers["webhook-id"]);
      }
      response.writeHead(204).end(); // also to a repeat, else it comes again
    } catch (error) {
      response.writeHead(error instanceof WebhookVerificationError ? 401 : 500).end();
    }
  });
});

server.listen(Number(process.env.PORT ?? 8000), "127.0.0.1", () => {
  console.log("listening on port", (server.address() as AddressInfo).port);
});
