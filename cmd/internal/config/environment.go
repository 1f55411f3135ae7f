package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// environment returns the variables of a list as os.Environ makes it.
func environment(list []string) map[string]string {
	variables := make(map[string]string, len(list))
	for _, entry := range list {
		name, value, _ := strings.Cut(entry, "=")
		variables[name] = value
	}
	return variables
}

// kubernetesVariable matches what Kubernetes puts into the environment for a Service whose name begins with opsgate.
var kubernetesVariable = regexp.MustCompile(`_SERVICE_(HOST|PORT)(_[A-Z0-9_]+)?$|_PORT(_\d+_(TCP|UDP|SCTP)(_[A-Z]+)?)?$`)

// fromVariables returns the settings that OPSGATE_* variables make of the keys. One that is set to nothing is as if absent. A variable
// of no key is a warning and no problem: a prefix is no property, and a container's environment has more authors than one. One of a
// name that a key had before goes before that of its name.
func fromVariables(environment map[string]string, keys []Key) (settings []Setting, warnings Problems) {
	known, former, without := make(map[string]string), make(map[string]Key), make(map[string]string)
	for key, reason := range removed {
		without[variable(key)] = reason
	}
	for _, key := range keys {
		known[key.Variable] = key.Name
		for _, name := range key.former {
			former[variable(name)] = key
		}
	}
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		if !strings.HasPrefix(name, variablePrefix) || environment[name] == "" || name == PathVariable {
			continue
		}
		setting := Setting{Key: known[name], Value: environment[name], From: name}
		switch renamed, ok := former[name]; {
		case setting.Key != "":
			settings = append(settings, setting)
		case ok:
			setting.Key = renamed.Name
			settings = slices.Insert(settings, 0, setting)
			warnings = append(warnings, deprecated(origin{name: name}, "", renamed.Variable))
		case without[name] != "":
			warnings = append(warnings, ignored(origin{name: name}, "", without[name]))
		case !kubernetesVariable.MatchString(name):
			warnings = append(warnings, problem(origin{name: name}, "", "sets no key of the configuration"))
		}
	}
	return settings, warnings
}
