package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"opsgate/internal/testkit"
)

// inventoryFile writes an inventory.
func inventoryFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "inventory.yaml")
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

const quay = `teams:
  - name: Quay
    plan: ai
    pages:
      - {name: Quay, hostname: status.quay.example, visibility: public, color: '#112233', components: [{name: Phone}],
         subscribers: [{webhook: 'https://hooks.customer.example/x'}]}
`

func TestApplyAndExport(t *testing.T) {
	dir, file := t.TempDir(), inventoryFile(t, quay)
	dry := succeed(t, "apply", "--data-dir", dir, "-f", file, "--dry-run")
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 || !strings.HasPrefix(dry, "+ team Quay\n") || strings.Contains(dry, "whsec_") {
		t.Errorf("a dry run without a database left %v, and printed:\n%s", left, dry)
	}
	created := succeed(t, "apply", "--data-dir", dir, "-f", file)
	if !strings.HasPrefix(created, "+ team Quay\n+ status page Quay/Quay\n+ component Quay/Quay/Phone\n+ subscriber Quay/Quay/https://hooks.customer.example/…\n"+
		"secret of subscriber ") || !strings.Contains(created, ": whsec_") {
		t.Errorf("applied:\n%s", created)
	}
	changed := inventoryFile(t, strings.NewReplacer("{name: Phone}", "{name: Fax}", "'#112233'", "'#445566'").Replace(quay))
	const want = "~ status page Quay/Quay\n    color \"#112233\" → \"#445566\"\n+ component Quay/Quay/Fax\n= component Quay/Quay/Phone\n"
	for _, flags := range [][]string{{"--dry-run"}, nil} {
		if got := succeed(t, append([]string{"apply", "--data-dir", dir, "-f", changed}, flags...)...); got != want {
			t.Errorf("%v:\n%s", flags, got)
		}
	}
	taken := inventoryFile(t, strings.ReplaceAll(quay, "name: Quay", "name: Pier"))
	for _, flags := range [][]string{{"--dry-run"}, nil} {
		code, out, errs := run(t, append([]string{"apply", "--data-dir", dir, "-f", taken}, flags...)...)
		if code != 1 || out != "" || !strings.Contains(errs, "status page Pier/Pier: the status page Quay/Quay has the hostname") {
			t.Errorf("%v: a hostname of another team: exit code %d, %s%s", flags, code, out, errs)
		}
	}
	added := inventoryFile(t, strings.Replace(quay, "customer.example/x", "customer.example/y", 1))
	if got := succeed(t, "apply", "--data-dir", dir, "-f", added, "--dry-run"); strings.Contains(got, "whsec_") {
		t.Errorf("a dry run printed a secret that is not valid:\n%s", got)
	}
	exported := succeed(t, "export", "--data-dir", dir)
	if strings.Contains(exported, "customer.example/y") {
		t.Error("a dry run added a subscriber")
	}
	if again := succeed(t, "apply", "--data-dir", dir, "-f", inventoryFile(t, exported)); again != "" || strings.Contains(exported, "created_at") {
		t.Errorf("applied the export:\n%s\n%s", exported, again)
	}
	if state := succeed(t, "export", "--data-dir", dir, "--state"); !strings.Contains(state, "created_at: ") {
		t.Errorf("exported with state:\n%s", state)
	}
	if schema := succeed(t, "schema"); !strings.Contains(schema, `"title": "Inventory of opsbackend"`) {
		t.Error(schema)
	}
}

func TestApply_Errors(t *testing.T) {
	file := inventoryFile(t, strings.Replace(quay, "plan: ai", "plan: gold", 1))
	apply := "apply --data-dir " + t.TempDir()
	for _, c := range []usage{
		{2, apply + " -f " + file + " --actor {6f2b8f0e-3f5c-4d1a-9b1e-0a7c5d3e2f10}", "--actor must be a UUID"},
		{1, apply + " -f " + file + "x", "open " + file + "x: no such file"},
		{1, apply + " -f " + file, "read " + file + ": "},
		{2, apply, "file"},
	} {
		c.check(t)
	}
}
