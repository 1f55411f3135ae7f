export { APIError } from "./core.js";
export { Client } from "./operations.js";
export { newRetryingFetch } from "./retry.js";
export { WebhookError, verifyWebhook } from "./webhook.js";
