package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
)

// Connections of gRPC use the proxies of the environment unless they are made with WithNoProxy, and
// every service is called directly. The exporter of traces dials inside its library.
func TestConnectionsOfGRPCAreMadeWithoutProxies(t *testing.T) {
	dial, direct := regexp.MustCompile(`\bgrpc\.(NewClient|Dial\w*)\(`), regexp.MustCompile(`\bgrpc\.WithNoProxy\(\)`)
	missing, found := make(map[string]int), 0 // options that a folder lacks
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules"):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if generated := strings.HasPrefix(string(text), "// Code generated"); err != nil || generated {
			return err
		}
		dials := len(dial.FindAll(text, -1))
		found += dials
		missing[filepath.Dir(path)] += dials - len(direct.FindAll(text, -1))
		return nil
	})
	testkit.Must(t, err)
	for folder, n := range missing {
		if n > 0 {
			t.Errorf("%s: %d connections without grpc.WithNoProxy()", folder, n)
		}
	}
	if found < 10 {
		t.Errorf("found only %d connections: the search does not work", found)
	}
}
