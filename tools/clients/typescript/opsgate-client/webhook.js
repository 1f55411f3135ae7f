import { createHmac, timingSafeEqual } from "node:crypto";

const tolerance = 300; // seconds

export class WebhookError extends Error {}

export function verifyWebhook(secret, headers, body) {
  const all = headers instanceof Headers ? headers : new Headers(headers);
  const [id, sent, given] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) => all.get(name) ?? "");
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  if (key.length === 0) {
    throw new TypeError("the secret is empty");
  }
  const signature = Buffer.from("v1," + createHmac("sha256", key).update(`${id}.${sent}.`).update(body).digest("base64"));
  const matches = (text) => text.length === signature.length && timingSafeEqual(text, signature);
  if (!given.split(" ").some((text) => matches(Buffer.from(text)))) {
    throw new WebhookError("no signature matches");
  }
  if (!/^\d+$/.test(sent) || Math.abs(Date.now() / 1000 - Number(sent)) > tolerance) {
    throw new WebhookError("the timestamp is not of now");
  }
  return JSON.parse(typeof body === "string" ? body : new TextDecoder().decode(body));
}
