import { createHmac, timingSafeEqual } from "node:crypto";

const names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
const secretForm = "the secret of a webhook is whsec_ and base64, like whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const tolerance = 300; // seconds

export class WebhookError extends Error {}

export function verifyWebhook(secret, headers, body) {
  const [, encoded] = /^(?:whsec_)?((?:[A-Za-z0-9+/]{4})+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)$/.exec(secret ?? "") ?? [];
  if (!encoded) {
    throw new TypeError(secretForm);
  }
  const key = Buffer.from(encoded, "base64");
  const all = headers instanceof Headers ? headers : new Headers(headers);
  const [id, sent, given] = names.map((name) => all.get(name));
  const missing = names.find((name) => !all.get(name));
  if (missing) {
    throw new WebhookError(`the header ${missing} is missing`);
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
