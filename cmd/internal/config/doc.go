// Package config reads the gateway's configuration: defaults, then the file, then OPSGATE_* variables, then flags, each over
// what was before.
//
// The structs in config.go and ratelimit.go are the one table of what can be configured. From their tags come the decoder's
// keys, the names of the variables, the bounds, the JSON Schema and the table in docs/configuration.md, so that none of
// them can part from the others. Nothing passes in silence: unknown keys, repeated keys and values out of bounds are
// problems, all of them are reported together, and each names its file and line (or its variable or flag) and its key. A
// file holds no secrets; where one is needed, it names a variable or another file.
//
// What was loaded knows where each of its values came from, has a version that names the values, and can be held against the
// configuration of a running gateway, for which some keys wait for a restart.
//
// It builds nothing and binds nothing: what the values are for is left to package edge.
package config
