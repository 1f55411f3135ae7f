package filereader

import (
	"os"
	"path/filepath"
	"testing"

	"opsgate/internal/testkit"
)

// A file that is being written, or missing for a moment, is read once two readings agree.
func TestFilesAreReadWhenTwoReadingsAgree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	put := func(text string) {
		t.Helper()
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	remove := func(string) {
		testkit.Must(t, os.Remove(path))
	}
	keep := func(string) {}
	put("first")
	files := []string{path}
	w := Watcher{Reader: new(Reader)}
	w.Loaded = w.Fingerprint(files)
	for i, step := range []struct {
		change func(text string)
		text   string
		want   bool
	}{
		{keep, "", false},
		{put, "sec", false}, {put, "second", false}, {keep, "", true},
		{keep, "", false},
		{remove, "", false}, {put, "second", false}, {keep, "", false},
		{remove, "", false}, {put, "third", false}, {keep, "", true},
		{remove, "", false}, {keep, "", true},
	} {
		step.change(step.text)
		got, _ := w.Changed(files)
		if got {
			w.Loaded = w.Fingerprint(files)
		}
		if got != step.want {
			t.Errorf("step %d, %q: changed is %t", i, step.text, got)
		}
	}
}
