// Package config loads the gateway's configuration from defaults, the file, OPSGATE_* variables and
// flags. Each of these overrides the ones before.
//
// The tags of the structs define the keys, the variables, the bounds, the JSON Schema and the table
// in docs/operate/configuration.md. Unknown keys, repeated keys and values out of bounds are
// problems. All problems are reported together, each with its key and its origin: a file and line,
// a variable or a flag. A file must not contain secrets; it names a variable or another file.
//
// A [Loaded] configuration has the origin of each value and a version, and can be compared with the
// configuration of a running gateway, because some keys take effect only after a restart.
package config
