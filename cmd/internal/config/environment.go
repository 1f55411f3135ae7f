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

// fromVariables returns the settings that OPSGATE_* variables make. One that is set to nothing is as if absent. A variable of no
// key is a warning and no problem: a prefix is no property, and a container's environment has more authors than one.
func fromVariables(environment map[string]string) (settings []Setting, unknown Problems) {
	known := map[string]string{PathVariable: ""}
	for _, key := range Keys() {
		known[key.Variable] = key.Name
	}
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		if !strings.HasPrefix(name, variablePrefix) || environment[name] == "" || name == PathVariable {
			continue
		}
		key, ok := known[name]
		switch {
		case ok:
			settings = append(settings, Setting{Key: key, Value: environment[name], From: name})
		case !kubernetesVariable.MatchString(name):
			unknown = append(unknown, problem(origin{name: name}, "", "sets no key of the configuration"))
		}
	}
	return settings, unknown
}
