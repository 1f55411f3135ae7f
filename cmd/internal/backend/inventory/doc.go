// Package inventory applies a file of teams with their servers, monitors and status pages to the
// reference backend, and exports such a file. It stands for a dashboard. References are by name.
// What the file does not have is kept.
package inventory
