// Package simulation moves the demo data: agents report metrics, and probes check the targets of
// monitors, of which now and then one fails and recovers. It only reports to the ingest service;
// what follows from a check, such as an incident, the backend decides.
//
// Reports of the same seed, start and data are the same. Time in which the simulation did not run
// is not made up for.
package simulation
