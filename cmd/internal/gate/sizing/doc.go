// Package sizing estimates what an installation of gateways needs, from measured costs. docs/scaling.md has the arithmetic.
package sizing
