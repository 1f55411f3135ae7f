package main

import (
	"context"
	"crypto/ed25519"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1) //nolint:gocritic // stop is not needed on exit
	}
}

// release has the parameters of a release.
type release struct {
	source    string // folder of the repository
	out       string // folder for the archives
	version   string
	revision  string
	date      time.Time
	platforms []platform
	builder   string             // URI of the build platform
	key       ed25519.PrivateKey // nil for a release that is not signed
	images    []string           // references to the published images, by digest; none if they are not released
	clients   bool               // whether to build the client packages only
}

// name returns the common prefix of the names of the release's files.
func (r release) name() string { return "opsgate_" + r.version }

// platform is an operating system and an architecture.
type platform struct{ os, arch string }

func run(ctx context.Context, args []string, progress io.Writer) error {
	r, err := parse(ctx, args)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "dist-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	fmt.Fprintf(progress, "opsgate %s, revision %s, into %s\n", r.version, r.revision, r.out)
	files, err := r.makeClients()
	if err != nil {
		return fmt.Errorf("the client packages: %w", err)
	}
	if r.clients {
		return r.list(progress, files)
	}
	generated, err := r.generatedFiles(ctx, work)
	if err != nil {
		return err
	}
	for _, p := range r.platforms {
		fmt.Fprintf(progress, "building %s for %s/%s\n", strings.Join(programs(), ", "), p.os, p.arch)
		names, err := r.makeArchive(ctx, p, filepath.Join(work, p.os+"_"+p.arch), generated)
		if err != nil {
			return fmt.Errorf("for %s/%s: %w", p.os, p.arch, err)
		}
		files = append(files, names...)
	}
	chart, err := r.makeChart()
	if err != nil {
		return fmt.Errorf("the chart: %w", err)
	}
	files, err = r.attest(append(files, chart), filepath.Join(work, runtime.GOOS+"_"+runtime.GOARCH, programs()[0]))
	if err != nil {
		return err
	}
	return r.list(progress, files)
}

// list prints each file of the release with its size and what it is.
func (r release) list(progress io.Writer, files []string) error {
	for _, name := range files {
		info, err := os.Stat(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(progress, "%7d kB  %-20s  %s\n", (info.Size()+999)/1000, kind(name), filepath.Join(r.out, name))
	}
	return nil
}

// kind returns what a file of a release is.
func kind(name string) string {
	for _, k := range [][2]string{
		{".whl", "Python package"}, {"_npm.tgz", "npm package"}, {"_go.tar.gz", "Go module"},
		{".tar.gz", "archive"}, {".deb", "Debian package"}, {".rpm", "RPM package"}, {".cdx.json", "bill of materials"},
		{".tgz", "Helm chart"}, {".provenance.json", "provenance"},
		{".images.txt", "images by digest"}, {".intoto.jsonl", "signed provenance"}, {".sig", "signature"}, {sumsName, "checksums"},
	} {
		if strings.HasSuffix(name, k[0]) {
			return k[1]
		}
	}
	return "file"
}

// attest writes the provenance, the references to the images, the checksums, and with a key the signatures. It returns the names of all
// files. program is the path of one of the built programs.
func (r release) attest(files []string, program string) ([]string, error) {
	statement, err := r.provenance(files, program)
	if err != nil {
		return nil, fmt.Errorf("the provenance: %w", err)
	}
	name := r.name() + ".provenance.json"
	if err := os.WriteFile(filepath.Join(r.out, name), statement, 0o644); err != nil {
		return nil, err
	}
	images, err := r.writeImages()
	if err != nil {
		return nil, err
	}
	files = append(append(files, name), images...)
	if err := writeSums(r.out, files); err != nil {
		return nil, err
	}
	signatures, err := r.sign(statement)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return append(append(files, sumsName), signatures...), nil
}

// parse reads the command line, and missing values from git.
func parse(ctx context.Context, args []string) (release, error) {
	var r release
	var date, platforms, key, images string
	flags := flag.NewFlagSet("dist", flag.ContinueOnError)
	flags.StringVar(&r.source, "source", ".", "folder of the repository")
	flags.StringVar(&r.out, "out", "dist", "folder for the release")
	flags.StringVar(&r.version, "version", "", "version; default: from the tag or commit")
	flags.StringVar(&r.revision, "revision", "", "revision; default: the checked out one")
	flags.StringVar(&date, "date", "", "date in RFC 3339; default: of the commit")
	flags.StringVar(&platforms, "platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "os/arch to build for, with commas")
	flags.StringVar(&r.builder, "builder", builderID, "URI of the build platform, for the provenance")
	flags.StringVar(&key, "key", "", "file with an Ed25519 key (PKCS #8, PEM) to sign checksums and provenance with")
	flags.StringVar(&images, "images", "", "published images of this version as NAME@sha256:DIGEST, with spaces, to list in the checksums")
	flags.BoolVar(&r.clients, "clients", false, "build the client packages only")
	if err := flags.Parse(args); err != nil {
		return r, err
	}
	if err := r.useImages(strings.Fields(images)); err != nil {
		return r, err
	}
	if err := r.useKey(key); err != nil {
		return r, err
	}
	for text := range strings.SplitSeq(platforms, ",") {
		system, arch, found := strings.Cut(text, "/")
		if !found {
			return r, fmt.Errorf("platform %q is not of the form linux/amd64", text)
		}
		r.platforms = append(r.platforms, platform{system, arch})
	}
	if err := r.describe(ctx, &date); err != nil {
		return r, err
	}
	r.version = strings.TrimPrefix(r.version, "v")
	parsed, err := time.Parse(time.RFC3339, date)
	r.date = parsed.UTC()
	return r, err
}

// describe reads missing values from git. The revision is marked as modified if a file differs from it or is untracked.
func (r *release) describe(ctx context.Context, date *string) (err error) {
	git := func(args ...string) string {
		output, failure := exec.CommandContext(ctx, "git", append([]string{"-C", r.source}, args...)...).Output()
		if failure != nil {
			err = fmt.Errorf("read from git (or set the flag): %w", failure)
		}
		return strings.TrimSpace(string(output))
	}
	if r.version == "" {
		r.version = git("describe", "--tags", "--always", "--dirty")
	}
	if *date == "" {
		*date = git("log", "-1", "--format=%cI")
	}
	if r.revision == "" {
		r.revision = git("rev-parse", "HEAD")
		if git("status", "--porcelain", "--untracked-files=normal") != "" {
			r.revision += "-modified"
		}
	}
	return err
}
