package command_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
)

func TestSizePrintsWhatALoadNeeds(t *testing.T) {
	got := opsgate(t, nil, "size", "--rps=2000", "--tokens=50000", "--replicas=2")
	if got.code != 0 || !strings.HasPrefix(got.out, "first bottleneck: cached tokens: 50% used, safe up to 100%, with about 100,000 tokens\n") {
		t.Fatalf("got %+v", got)
	}
	mustHaveLines(t, got.out,
		"gateways 2 of 2 processors and 512 MiB",
		"redis 2,000 operations per second and 19.69 MiB, on 1",
		"cached tokens 50,000 100,000 50% 100%",
		"requests in flight 10 1,024 1% 80%",
	)
}

func TestSizeNamesWhatIsMissing(t *testing.T) {
	got := opsgate(t, nil, "size", "--rps=2000", "--tokens=1000000", "--replicas=2")
	if got.code != 0 || !strings.HasPrefix(got.out, "not enough: cached tokens: ") || !strings.Contains(got.out, "authn.max_entries, or ") {
		t.Errorf("got %+v", got)
	}
}

func TestSizeUsesTheConfiguration(t *testing.T) {
	file := write(t, good+"rate_limit: {limits: [{requests: 64, per: 1s}, {requests: 64, per: 1m}, {requests: 64, per: 10m}]}\n"+
		"authn: {max_entries: 7000}\nhttp: {max_in_flight: 333}\n")
	type plan struct {
		RedisBytes int `json:"redis_bytes"`
		Uses       []struct {
			Resource string
			Has      float64
		}
		Bottleneck string
		Costs      map[string]float64
	}
	var byDefault, configured plan
	for into, more := range map[*plan][]string{&byDefault: nil, &configured: {"--config", file}} {
		got := opsgate(t, nil, append([]string{"size", "--rps=100", "--tokens=6000", "--json"}, more...)...)
		if err := json.Unmarshal([]byte(got.out), into); err != nil || got.code != 0 {
			t.Fatalf("%v, %+v", err, got)
		}
	}
	// An account has 2 bytes, and windows of 21 bytes and 7 for each of 64 requests; by default 3 requests, and a window of 149 bytes.
	larger := 3*(21+64*7) - (21 + 3*7 + 149)
	if got := (configured.RedisBytes - byDefault.RedisBytes) / 6000; got != larger {
		t.Errorf("an account is larger by %d bytes, not %d", got, larger)
	}
	for _, u := range configured.Uses {
		if u.Resource == "cached tokens" && u.Has != 7000 || u.Resource == "requests in flight" && u.Has != 333 {
			t.Errorf("%+v", u)
		}
	}
	if configured.Bottleneck != "cached tokens" || configured.Costs["decision_ns"] == 0 {
		t.Errorf("%+v", configured)
	}
}

func TestSizeWithoutRedis(t *testing.T) {
	if got := opsgate(t, nil, "size", "--rps=10", "--tokens=10", "--store=memory"); got.code != 0 || strings.Contains(got.out, "edis") {
		t.Errorf("got %+v", got)
	}
}

func TestSizeRefusesWrongNumbers(t *testing.T) {
	for _, wrong := range [][]string{
		nil, {"--rps=1"}, {"--rps=0", "--tokens=1"}, {"--rps=-1", "--tokens=1"}, {"--rps=NaN", "--tokens=1"}, {"--rps=1e300", "--tokens=1"},
		{"--rps=1", "--tokens=1", "--memory=1MB"}, {"--rps=1", "--tokens=1", "--replicas=-1"}, {"--rps=1", "--tokens=1", "--store=disk"},
		{"--rps=1", "--tokens=1", "--service-time=-1s"}, {"--rps=1", "--tokens=1", "--processors=0"},
	} {
		if got := opsgate(t, nil, append([]string{"size"}, wrong...)...); got.code != 2 || got.out != "" {
			t.Errorf("%v: got %+v", wrong, got)
		}
	}
}

// Each example of docs/operate/scaling.md prints what the page shows.
func TestSizePrintsTheExamplesOfTheDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/operate/scaling.md")
	testkit.Must(t, err)
	examples := regexp.MustCompile("(?s)```console\n\\$ opsgate (size [^\n]*)\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(examples) != 1 {
		t.Fatalf("there are %d examples", len(examples))
	}
	for _, example := range examples {
		if got := opsgate(t, nil, strings.Fields(example[1])...); got.out != example[2] {
			t.Errorf("%s prints\n%s", example[1], got.out)
		}
	}
}
