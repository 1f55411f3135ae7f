// Package webhook sends messages to the webhooks of subscribers, signed by Standard Webhooks
// (standardwebhooks.com).
//
// Each request is signed with every valid secret of the subscriber and connects to public addresses
// only. Redirects are not followed. Times and sizes are bounded. Errors contain neither the path
// nor the query of the URL, which may be secret.
package webhook
