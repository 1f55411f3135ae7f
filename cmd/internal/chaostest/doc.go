// Package chaostest starts the programs as operators do, several gateways and what stands behind them, and breaks what they depend
// on. What must hold then is the table of docs/limits.md, row by row.
//
// There are two forms. The short one is part of all tests: what is promised to clients is held to the letter, and times as far as a
// loaded machine allows. The full one (make chaos) takes as long as the table says, holds every bound, and prints each figure beside
// its bound.
package chaostest
