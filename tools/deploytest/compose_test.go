package deploytest

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"

	"opsgate/backendclient/testkit"
)

const composeDir = root + "/deploy/compose"

// compose loads the compose file like docker compose.
func compose(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{composeDir + "/compose.yaml"}, cli.WithWorkingDirectory(composeDir))
	testkit.Must(t, err)
	project, err := options.LoadProject(context.WithoutCancel(t.Context()))
	testkit.Must(t, err)
	return project
}

// pinned matches an image with full version and digest.
var pinned = regexp.MustCompile(`^[\w./-]+:v?\d+\.\d+\.\d+(-\w+)?@sha256:[0-9a-f]{64}$`)

func TestThirdPartyImagesArePinned(t *testing.T) {
	for name, service := range compose(t).Services {
		if service.Build == nil && !pinned.MatchString(service.Image) {
			t.Errorf("%s: the image is %q", name, service.Image)
		}
	}
}

func TestPortsArePublishedOnLoopback(t *testing.T) {
	var published []string
	for name, service := range compose(t).Services {
		for _, p := range service.Ports {
			published = append(published, fmt.Sprintf("%s %s:%s", name, p.HostIP, p.Published))
		}
	}
	slices.Sort(published)
	if want := []string{"balancer 127.0.0.1:8080", "grafana 127.0.0.1:3000"}; !slices.Equal(published, want) {
		t.Errorf("got %q, want %q", published, want)
	}
}

func TestContainersAreRestricted(t *testing.T) {
	for name, service := range compose(t).Services {
		if !service.ReadOnly || !slices.Contains(service.CapDrop, "ALL") || !slices.Contains(service.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s is not restricted", name)
		}
		for _, value := range service.Environment {
			if value != nil && strings.Contains(strings.ToLower(*value), "password") && !strings.HasPrefix(*value, "/run/secrets/") {
				t.Errorf("%s has a password in its environment", name)
			}
		}
	}
}

func TestTwoGatewaysWithAutoReplicas(t *testing.T) {
	gateway := compose(t).Services["gateway"]
	if gateway.Deploy == nil || gateway.Deploy.Replicas == nil || *gateway.Deploy.Replicas != 2 {
		t.Fatalf("got %+v", gateway.Deploy)
	}
	if config := read(t, composeDir+"/gateway/opsgate.yaml"); !strings.Contains(config, "expected_replicas: auto\n") {
		t.Error("expected_replicas is not auto")
	}
}

// The compose file names existing files, images and secrets.
func TestComposeFilesExist(t *testing.T) {
	project := compose(t)
	for name, service := range project.Services {
		for _, v := range service.Volumes {
			if _, err := os.Stat(v.Source); v.Type == types.VolumeTypeBind && err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if service.Build != nil {
			image(t, service.Build.Target)
			if _, err := os.Stat(filepath.Join(service.Build.Context, service.Build.Dockerfile)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	dir := t.TempDir()
	script := filepath.Join(dir, "secrets.sh")
	run(t, exec.CommandContext(t.Context(), "cp", composeDir+"/secrets.sh", script))
	run(t, exec.CommandContext(t.Context(), script))
	made := map[string]string{}
	for name, secret := range project.Secrets {
		made[name] = read(t, filepath.Join(dir, "secrets", filepath.Base(secret.File)))
		if len(made[name]) != 48 {
			t.Errorf("the secret %s is %q", name, made[name])
		}
	}
	run(t, exec.CommandContext(t.Context(), script))
	for name, before := range made {
		if read(t, filepath.Join(dir, "secrets", name)) != before {
			t.Errorf("the secret %s was replaced", name)
		}
	}
	check(t, read(t, composeDir+"/gateway/opsgate.yaml"), "/run/secrets", made)
}

func TestPrometheusConfigurationIsValid(t *testing.T) {
	dir := t.TempDir()
	secrets := filepath.Join(dir, "secrets")
	write(t, filepath.Join(secrets, "metrics_token"), "0123456789abcdef")
	config := read(t, composeDir+"/prometheus/prometheus.yml")
	rules, err := filepath.Abs(root + "/deploy/prometheus/rules")
	testkit.Must(t, err)
	config = strings.NewReplacer("/run/secrets", secrets, "/etc/prometheus-rules", rules).Replace(config)
	path := filepath.Join(dir, "prometheus.yml")
	write(t, path, config)
	run(t, exec.CommandContext(t.Context(), testkit.Find(t, "promtool"), "check", "config", path))
}

func TestGrafanaUsesThePrometheusService(t *testing.T) {
	services := slices.Sorted(maps.Keys(compose(t).Services))
	source := read(t, root+"/deploy/grafana/provisioning/datasources/prometheus.yaml")
	if !slices.Contains(services, "prometheus") || !strings.Contains(source, "url: http://prometheus:9090\n") {
		t.Errorf("there are %q, and the source is\n%s", services, source)
	}
}
