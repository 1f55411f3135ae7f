// Package configfile reads files that operators write: the secrets that they refer to, and their
// errors without secrets.
package configfile
