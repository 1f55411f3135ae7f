// Package simulation moves the demo data: agents report metrics, probes check targets, which fail and recover, people respond to incidents
// and run commands. It continues from the data that the backend has. Each event has a time; events of the same seed, start and data
// are the same, apart from the ids of new rows.
//
// A target is what a monitor checks. Its trouble decides the results of the checks, and the rules of the backend decide the rest: the
// monitor's status, the incident and the components. Incidents that clients of the API create are left alone.
package simulation
