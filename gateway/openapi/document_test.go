package openapi

import (
	"strings"
	"testing"
)

func TestJSONKeepsTheOrderOfKeys(t *testing.T) {
	const in = `
b: text
a:
  - 1
  - 2.5
  - true
  - null
  - "007"
  - <&> "quoted"
"200": {}
`
	const want = `{"b":"text","a":[1,2.5,true,null,"007","<&> \"quoted\""],"200":{}}`
	got, err := toJSON([]byte(in))
	if err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
}

func TestAmbiguousYAMLIsRejected(t *testing.T) {
	for in, want := range map[string]string{
		"at: 2026-01-02T03:04:05.678Z": "quote it",
		"200: {}":                      "quote it",
		"a: &x {}\nb: *x":              "line 2",
		"a: [&x 1, *x]":                "line 1",
		"a: [":                         "reading YAML",
		"a: !!int x":                   "line 1",
		"a: .nan":                      "line 1",
	} {
		if got, err := toJSON([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %s, %v", in, got, err)
		}
	}
}
