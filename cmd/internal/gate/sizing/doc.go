// Package sizing estimates what an installation of gateways needs, from measured costs. docs/operate/scaling.md has the arithmetic.
package sizing
