export { APIError, type CallOptions, type WriteOptions } from "./core.js";
export * from "./operations.js";
export { newRetryingFetch } from "./retry.js";
export * from "./webhook.js";
