package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
)

const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestSignedChecksumsIncludeTheDigestsOfImages(t *testing.T) {
	key, path := newKey(t)
	r := release{source: root, out: t.TempDir(), version: "1.2.3", revision: revision}
	testkit.Must(t, r.useKey(path))
	opsgate, opsbackend := "registry.example:5000/team/opsgate"+digest, "registry.example:5000/team/opsbackend:1.2.3"+digest
	testkit.Must(t, r.useImages([]string{opsgate, opsbackend, opsgate}))
	made := attested(t, r)
	const name = "opsgate_1.2.3.images.txt"
	if want := opsbackend + "\n" + opsgate + "\n"; string(made[name]) != want {
		t.Errorf("%s is %q, want %q", name, made[name], want)
	}
	if !strings.Contains(string(made[sumsName]), "  "+name+"\n") {
		t.Errorf("%s is not in the checksums:\n%s", name, made[sumsName])
	}
	checkSignatures(t, key, r.out, made)

	r.images = nil
	if made = attested(t, r); made[name] != nil || strings.Contains(string(made[sumsName]), name) {
		t.Errorf("a release without images has those of an earlier one:\n%s", made[sumsName])
	}
}

// attested attests a release without archives and returns its files.
func attested(t *testing.T, r release) map[string][]byte {
	t.Helper()
	program, err := os.Executable()
	testkit.Must(t, err)
	names, err := r.attest(nil, program)
	testkit.Must(t, err)
	made := map[string][]byte{}
	for _, name := range names {
		made[name], err = os.ReadFile(filepath.Join(r.out, name))
		testkit.Must(t, err)
	}
	return made
}

func TestImagesAreReferencedByDigest(t *testing.T) {
	for _, test := range [][]string{
		{"opsgate:1.2.3", "opsbackend:1.2.3"},
		{"opsgate" + digest},
		{"opsgate" + digest, "opsbackend" + digest[:20]},
		{"opsgate" + digest, "opsbackend" + digest, "redis" + digest},
		{"opsgate" + digest, "opsbackend" + digest + "\nopsgate" + digest},
	} {
		if err := new(release).useImages(test); err == nil {
			t.Errorf("%q: no error", test)
		}
	}
}
