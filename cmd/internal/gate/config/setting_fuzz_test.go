package config_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"opsgate/cmd/internal/gate/config"
	"opsgate/internal/testkit"
)

// FuzzSetting checks that a flag and a variable give the same result, that problems name them, and
// that secrets are not reported.
func FuzzSetting(f *testing.F) {
	defaults := map[string]string{}
	loaded, err := config.Load(config.Options{NoFile: true, Defaults: upstreams()})
	testkit.Must(f, err)
	for _, v := range loaded.Effective() {
		defaults[v.Key] = v.Value
	}
	keys := config.Keys()
	for i, key := range keys {
		f.Add(uint16(i), defaults[key.Name])
		f.Add(uint16(i), "[{requests: 1, per: 1s, name: a}]")
	}
	f.Add(uint16(0), "${file:/dev/null}")
	f.Add(uint16(1), "&a [*a, *a]")
	f.Fuzz(func(t *testing.T, number uint16, value string) {
		const marker = "hunter2"
		key := keys[int(number)%len(keys)]
		if key.Secret && !strings.HasPrefix(value, "${") {
			value = marker + value
		}
		o := config.Options{
			NoFile: true, Defaults: upstreams(), Environment: []string{"NAME=" + marker},
			Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
		}
		o.Flags = []config.Setting{{Key: key.Name, Value: value, From: "--flag"}}
		byFlag, flagErr := config.Load(o)
		if flagErr != nil {
			problems, ok := errors.AsType[config.Problems](flagErr)
			if !ok || len(problems) == 0 {
				t.Fatalf("%s=%q: %v", key.Name, value, flagErr)
			}
			for _, p := range problems {
				if p.Text == "" || p.Key == "" && p.Where == "" {
					t.Errorf("%s=%q: a problem without text or origin: %+v", key.Name, value, p)
				}
			}
		}
		if key.Secret {
			output := fmt.Sprintf("%v %v %v %+v %#v", flagErr, byFlag.Effective(), byFlag.Warnings, byFlag.Config, byFlag.Config)
			if strings.Contains(output, marker) {
				t.Errorf("%s: the secret is in %s", key.Name, output)
			}
		}
		if value == "" {
			return // a variable that is set to nothing is as if absent
		}
		o.Flags, o.Environment = nil, append(o.Environment, key.Variable+"="+value)
		byVariable, variableErr := config.Load(o)
		if (flagErr == nil) != (variableErr == nil) || byFlag.Version() != byVariable.Version() {
			t.Errorf("%s=%q: %v by the flag, %v by the variable", key.Name, value, flagErr, variableErr)
		}
	})
}
