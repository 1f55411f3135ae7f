package deploytest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"

	"opsgate/internal/testkit"
)

const composeDir = root + "/deploy/compose"

// The compose file is valid, names existing files, and the configuration of its gateways passes the
// check.
func TestComposeFileIsValid(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{composeDir + "/compose.yaml"}, cli.WithWorkingDirectory(composeDir), cli.WithProfiles([]string{"*"}))
	testkit.Must(t, err)
	project, err := options.LoadProject(context.WithoutCancel(t.Context())) // what docker compose config does
	testkit.Must(t, err)
	for name, service := range project.Services {
		if service.Build != nil {
			if _, err := os.Stat(filepath.Join(service.Build.Context, service.Build.Dockerfile)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, v := range service.Volumes {
			if _, err := os.Stat(v.Source); v.Type == types.VolumeTypeBind && err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	checkConfiguration(t, read(t, composeDir+"/gateway/opsgate.yaml"), "/run/secrets")
}

// secrets.sh creates each secret of the compose file once.
func TestSecretsAreCreatedOnce(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "secrets.sh")
	run(t, exec.CommandContext(t.Context(), "cp", composeDir+"/secrets.sh", script))
	run(t, exec.CommandContext(t.Context(), script))
	first := map[string]string{}
	for _, name := range []string{"admin_token", "metrics_token", "redis_password", "grafana_password"} {
		if first[name] = read(t, filepath.Join(dir, "secrets", name)); len(first[name]) != 48 {
			t.Errorf("the secret %s is %q", name, first[name])
		}
	}
	run(t, exec.CommandContext(t.Context(), script))
	for name, before := range first {
		if read(t, filepath.Join(dir, "secrets", name)) != before {
			t.Errorf("the secret %s was replaced", name)
		}
	}
}
