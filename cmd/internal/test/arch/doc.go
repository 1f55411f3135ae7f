// Package arch tests which packages of this repository may depend on which. The linter checks direct imports; these tests check
// everything that is linked. The package has no code besides its tests.
package arch
