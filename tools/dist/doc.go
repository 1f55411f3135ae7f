// Command dist builds a release: for each platform an archive with the programs, manual pages, completions, the systemd unit, an example
// configuration, documents, alerts and dashboards, and a bill of materials; the Helm chart; the client packages for Python, npm and Go; the
// provenance; and the checksums. With a key it signs the checksums and the provenance.
//
// Builds are reproducible: the same sources and Go version give the same bytes on any machine. Archives have a fixed order, the date of
// the commit, and no owner.
package main
