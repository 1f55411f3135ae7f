package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// environment returns the variables in the result of os.Environ by name.
func environment(list []string) map[string]string {
	variables := make(map[string]string, len(list))
	for _, entry := range list {
		name, value, _ := strings.Cut(entry, "=")
		variables[name] = value
	}
	return variables
}

// kubernetesVariable matches the variables that Kubernetes sets for a Service whose name begins with opsgate.
var kubernetesVariable = regexp.MustCompile(`_SERVICE_(HOST|PORT)(_[A-Z0-9_]+)?$|_PORT(_\d+_(TCP|UDP|SCTP)(_[A-Z]+)?)?$`)

// fromVariables returns the settings of OPSGATE_* variables. Empty variables are ignored. A variable of an unknown key is only a warning,
// because other software can set variables of a container.
func fromVariables(environment map[string]string, keys []Key) (settings []Setting, warnings Problems) {
	known := make(map[string]string)
	for _, key := range keys {
		known[key.Variable] = key.Name
	}
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		if !strings.HasPrefix(name, variablePrefix) || environment[name] == "" || name == PathVariable {
			continue
		}
		switch key, ok := known[name]; {
		case ok:
			settings = append(settings, Setting{Key: key, Value: environment[name], From: name})
		case !kubernetesVariable.MatchString(name):
			warnings = append(warnings, problem(origin{name: name}, "", "sets no key of the configuration"))
		}
	}
	return settings, warnings
}
