// Package arch tests what concerns the whole repository: what each program links, links and names
// in documents. The package has no code besides its tests.
package arch
