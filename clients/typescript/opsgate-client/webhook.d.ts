import type { IncidentImpact, IncidentStatus } from "./operations.js";

/** A request is no webhook of the holder of the secret, or is older than five minutes: answer 401. */
export class WebhookError extends Error {}

/** The payload of a webhook. Further types may follow. */
export interface WebhookPayload {
  type: "incident.created" | "incident.update_posted" | (string & {});
  timestamp: string;
  data: {
    statusPage: { id: string; name: string; hostname: string };
    incident: {
      id: string;
      title: string;
      status: IncidentStatus;
      impact: IncidentImpact;
      isMaintenance: boolean;
      startedAt: string;
      components: { id: string; name: string }[];
    };
    update: { id: string; status: IncidentStatus; message: string; createdAt: string };
  };
}

/** Returns the payload of a webhook. body is as it came. Drop repeats by the header webhook-id. */
export function verifyWebhook(
  secret: string,
  headers: Headers | Record<string, string>,
  body: string | Uint8Array,
): WebhookPayload;
