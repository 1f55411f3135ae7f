// Command dist makes what is released: an archive for each platform with the programs, their manual pages and completions, the unit,
// an example configuration, the documents, alerts and dashboards; beside it a bill of materials; the chart; the provenance of all of these;
// and the checksums of all. With a key it signs the checksums and the provenance.
//
// The same sources and the same Go give the same bytes, whoever makes them, when and in whatever folder: nothing of the machine goes
// into a program, and archives are written in one order, with the date of the commit and nobody as owner.
package main
