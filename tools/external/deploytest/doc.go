// Package deploytest tests what deploy has: the Helm chart, the compose file, the images'
// Dockerfile, the systemd units, and the dashboards and alerts against the metrics of a real
// gateway.
package deploytest
