package deploytest

import (
	"archive/tar"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
)

// A rootfs collects files of this machine for an image.
type rootfs struct {
	t       *testing.T
	archive *tar.Writer
	written map[string]bool
}

// importImage makes an image of files of this machine: no registry is asked. The changes are instructions of a Dockerfile.
func (e *dockerEngine) importImage(t *testing.T, name string, add func(*rootfs), changes ...string) {
	t.Helper()
	reader, writer := io.Pipe()
	line := "docker import"
	for _, change := range changes {
		line += fmt.Sprintf(" --change '%s'", change)
	}
	cmd := e.command(t.Context(), line+" - "+name)
	cmd.Stdin = reader
	ended := make(chan error, 1)
	go func() {
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("import %s: %w\n%s", name, err, out)
		}
		reader.CloseWithError(errors.Join(err, io.ErrClosedPipe))
		ended <- err
	}()
	files := &rootfs{t: t, archive: tar.NewWriter(writer), written: map[string]bool{}}
	add(files)
	_ = files.archive.Close()
	_ = writer.Close()
	testkit.Must(t, <-ended)
}

// file adds a file of this machine under another path.
func (r *rootfs) file(source, target string) {
	r.t.Helper()
	target = strings.TrimPrefix(target, "/")
	if r.written[target] {
		return
	}
	r.written[target] = true
	content, err := os.Open(source)
	testkit.Must(r.t, err)
	defer func() { _ = content.Close() }()
	info, err := content.Stat()
	testkit.Must(r.t, err)
	testkit.Must(r.t, r.archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: target, Mode: int64(info.Mode().Perm()), Size: info.Size()}))
	_, err = io.Copy(r.archive, content)
	testkit.Must(r.t, err)
}

// dir adds an empty folder.
func (r *rootfs) dir(target string, mode int64, owner int) {
	r.t.Helper()
	testkit.Must(r.t, r.archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: target + "/", Mode: mode, Uid: owner, Gid: owner}))
}

// tree adds a folder of this machine.
func (r *rootfs) tree(source, target string) {
	r.t.Helper()
	err := filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			r.file(path, target+strings.TrimPrefix(path, source))
		}
		return err
	})
	testkit.Must(r.t, err)
}

// programs adds programs of this machine to /bin, with their libraries.
func (r *rootfs) programs(names ...string) {
	r.t.Helper()
	libraries := regexp.MustCompile(`/\S+\.so\S*`)
	for _, name := range names {
		path := testkit.Find(r.t, name)
		r.file(path, "/bin/"+name)
		list, err := exec.CommandContext(r.t.Context(), "ldd", path).Output() // fails for a static program
		if err != nil {
			continue
		}
		for _, library := range libraries.FindAllString(string(list), -1) {
			r.file(library, library)
		}
	}
	r.dir("tmp", 0o1777, 0)
}

// goImage makes a build image of the Go that go.mod names, and this machine's modules and build cache, in place of the golang image that
// GO_IMAGE names.
func (e *dockerEngine) goImage(t *testing.T, name string) {
	t.Helper()
	var env struct{ GOROOT, GOMODCACHE, GOCACHE string }
	inModule(t, &env, "env", "-json")
	e.importImage(t, name, func(r *rootfs) {
		r.programs("sh", "cat", "mkdir")
		r.file("/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/certs/ca-certificates.crt")
		for _, part := range []string{"bin", "pkg", "src"} {
			r.tree(filepath.Join(env.GOROOT, part), "/usr/local/go/"+part)
		}
		r.file(filepath.Join(env.GOROOT, "go.env"), "/usr/local/go/go.env")
		r.file(filepath.Join(env.GOROOT, "VERSION"), "/usr/local/go/VERSION")
		r.modules(filepath.Join(env.GOMODCACHE, "cache", "download"))
		r.cache(env.GOCACHE)
	}, "ENV PATH=/usr/local/go/bin:/bin", "ENV GOPROXY=file:///proxy", "ENV GOCACHE=/cache")
}

// modules adds the downloaded modules as a module proxy of files.
func (r *rootfs) modules(downloads string) {
	r.t.Helper()
	add := func(path string) {
		if name, downloaded := strings.CutPrefix(path, downloads); downloaded {
			r.file(path, "/proxy"+name)
		}
	}
	list := json.NewDecoder(strings.NewReader(inModule(r.t, nil, "mod", "download", "-json")))
	for list.More() {
		var module struct{ Zip, Info, GoMod string }
		testkit.Must(r.t, list.Decode(&module))
		add(module.Zip)
		add(module.Info)
		add(module.GoMod)
	}
	upper := regexp.MustCompile(`[A-Z]`)
	for module := range strings.FieldsSeq(inModule(r.t, nil, "mod", "graph")) {
		path, version, _ := strings.Cut(module, "@")
		escaped := upper.ReplaceAllStringFunc(path+"/@v/"+version, func(letter string) string { return "!" + strings.ToLower(letter) })
		file := filepath.Join(downloads, escaped+".mod")
		if _, err := os.Stat(file); err == nil {
			add(file)
		}
	}
}

// cache adds what the build cache has of the programs: TestMain has compiled them. If the form of the cache changes, the build only takes longer.
func (r *rootfs) cache(folder string) {
	r.t.Helper()
	args := append([]string{"list", "-deps", "-export", "-buildvcs=false", "-f", "{{.BuildID}} {{.Export}}"},
		strings.Fields(read(r.t, filepath.Join(root, "deploy", "build-flags")))...)
	list := inModule(r.t, nil, append(args, "./cmd/opsgate", "./cmd/opsbackend")...)
	for line := range strings.Lines(list) {
		id, output, _ := strings.Cut(strings.TrimSpace(line), " ")
		action, _, _ := strings.Cut(id, "/")
		prefix, err := base64.RawURLEncoding.DecodeString(action)
		if err != nil || len(prefix) == 0 {
			continue
		}
		name := hex.EncodeToString(prefix)
		entries, err := filepath.Glob(filepath.Join(folder, name[:2], name+"*-a"))
		testkit.Must(r.t, err)
		for _, file := range append(entries, output) {
			r.file(file, "/cache"+strings.TrimPrefix(file, folder))
		}
	}
}

// inModule runs the go command in the product's module as the Dockerfile does, without the network, and decodes its output if into is given.
func inModule(t *testing.T, into any, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOTOOLCHAIN=auto", "GOPROXY=off", "CGO_ENABLED=0")
	out := testkit.Output(t, cmd)
	if into != nil {
		testkit.Must(t, json.Unmarshal([]byte(out), into))
	}
	return out
}
