package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1) //nolint:gocritic // stop has nothing to do any more
	}
}

// A release is what is made.
type release struct {
	source    string // folder of the repository
	out       string // folder for the archives
	version   string
	revision  string
	date      time.Time
	platforms []platform
}

// A platform is where a program runs.
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
	texts, err := r.texts(ctx, work)
	if err != nil {
		return err
	}
	var made []string
	for _, p := range r.platforms {
		names, err := r.makeArchive(ctx, p, filepath.Join(work, p.os+"_"+p.arch), texts)
		if err != nil {
			return fmt.Errorf("for %s/%s: %w", p.os, p.arch, err)
		}
		made = append(made, names...)
	}
	chart, err := r.makeChart()
	if err != nil {
		return fmt.Errorf("the chart: %w", err)
	}
	made = append(made, chart)
	if err := writeSums(r.out, made); err != nil {
		return err
	}
	for _, name := range append(made, sumsName) {
		fmt.Fprintln(progress, filepath.Join(r.out, name))
	}
	return nil
}

// parse reads the command line. What it does not say of the release, git does.
func parse(ctx context.Context, args []string) (release, error) {
	var r release
	var date, platforms string
	flags := flag.NewFlagSet("dist", flag.ContinueOnError)
	flags.StringVar(&r.source, "source", ".", "folder of the repository")
	flags.StringVar(&r.out, "out", "dist", "folder for what is made")
	flags.StringVar(&r.version, "version", "", "version; that of the tag, else of the commit")
	flags.StringVar(&r.revision, "revision", "", "revision; that which is checked out")
	flags.StringVar(&date, "date", "", "date in RFC 3339; that of the commit")
	flags.StringVar(&platforms, "platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "what to build for")
	if err := flags.Parse(args); err != nil {
		return r, err
	}
	for text := range strings.SplitSeq(platforms, ",") {
		system, arch, found := strings.Cut(text, "/")
		if !found {
			return r, fmt.Errorf("a platform is as linux/amd64, not %q", text)
		}
		r.platforms = append(r.platforms, platform{system, arch})
	}
	for _, unknown := range []struct {
		value *string
		git   []string
	}{
		{&r.version, []string{"describe", "--tags", "--always", "--dirty"}},
		{&r.revision, []string{"describe", "--always", "--abbrev=40", "--dirty=-modified", "--exclude=*"}},
		{&date, []string{"log", "-1", "--format=%cI"}},
	} {
		if *unknown.value != "" {
			continue
		}
		said, err := exec.CommandContext(ctx, "git", append([]string{"-C", r.source}, unknown.git...)...).Output()
		if err != nil {
			return r, fmt.Errorf("ask git (or say it by a flag): %w", err)
		}
		*unknown.value = strings.TrimSpace(string(said))
	}
	r.version = strings.TrimPrefix(r.version, "v")
	parsed, err := time.Parse(time.RFC3339, date)
	r.date = parsed.UTC()
	return r, err
}
