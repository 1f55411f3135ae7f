// Package archtest holds the packages of this repository to who may know whom. The linter says the same of what a file imports;
// the tests here look through everything that is linked, so that nothing comes in by way of another package. The package has
// tests alone.
package archtest
