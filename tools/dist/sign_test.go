package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"opsgate/backendclient/testkit"
)

// writeKey writes a private key in the format of OpenSSL and returns its path.
func writeKey(t *testing.T, dir string, key any) string {
	t.Helper()
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	testkit.Must(t, err)
	return writePEM(t, filepath.Join(dir, "key.pem"), "PRIVATE KEY", encoded)
}

func writePEM(t *testing.T, path, kind string, content []byte) string {
	t.Helper()
	testkit.Must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600))
	return path
}

func newKey(t *testing.T) (ed25519.PrivateKey, string) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	testkit.Must(t, err)
	return key, writeKey(t, t.TempDir(), key)
}

// checkSignatures verifies the signatures with the commands of docs/operate/install.md, and that no file contains the key.
func checkSignatures(t *testing.T, key ed25519.PrivateKey, dir string, made map[string][]byte) {
	t.Helper()
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok || !ed25519.Verify(public, made[sumsName], made[signatureName]) {
		t.Error("the checksums are not signed")
	}
	t.Run("openssl", func(t *testing.T) { checkByOpenSSL(t, public, dir) })
	checkEnvelope(t, public, made)
	for name, content := range made {
		for _, secret := range [][]byte{key.Seed(), []byte(base64.StdEncoding.EncodeToString(key.Seed())[:40]), []byte(hex.EncodeToString(key.Seed()))} {
			if bytes.Contains(content, secret) {
				t.Errorf("the key is in %s", name)
			}
		}
	}
}

func checkByOpenSSL(t *testing.T, public ed25519.PublicKey, dir string) {
	t.Helper()
	encoded, err := x509.MarshalPKIXPublicKey(public)
	testkit.Must(t, err)
	pem := writePEM(t, filepath.Join(t.TempDir(), "opsgate-release.pem"), "PUBLIC KEY", encoded)
	verify := func(signed string) (string, error) {
		cmd := exec.CommandContext(t.Context(), testkit.Find(t, "openssl"), "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", pem,
			"-in", signed, "-sigfile", signatureName)
		cmd.Dir = dir
		output, err := cmd.CombinedOutput()
		return string(output), err
	}
	if output, err := verify(sumsName); err != nil || !strings.Contains(output, "Signature Verified Successfully") {
		t.Errorf("%v\n%s", err, output)
	}
	if output, err := verify(pem); err == nil {
		t.Errorf("another file is verified:\n%s", output)
	}
}

func checkEnvelope(t *testing.T, public ed25519.PublicKey, made map[string][]byte) {
	t.Helper()
	var sealed signedPayload
	testkit.Must(t, json.Unmarshal(made["opsgate_1.2.3.intoto.jsonl"], &sealed))
	payload, err := base64.StdEncoding.DecodeString(sealed.Payload)
	if err != nil || !bytes.Equal(payload, made["opsgate_1.2.3.provenance.json"]) {
		t.Errorf("%v: the envelope holds %s", err, payload)
	}
	if sealed.PayloadType != "application/vnd.in-toto+json" || len(sealed.Signatures) != 1 {
		t.Fatalf("got %+v", sealed)
	}
	signed, err := base64.StdEncoding.DecodeString(sealed.Signatures[0].Sig)
	if err != nil || !ed25519.Verify(public, preAuthEncoding(payload), signed) {
		t.Errorf("%v: the envelope is not signed", err)
	}
	encoded, err := x509.MarshalPKIXPublicKey(public)
	id := sha256.Sum256(encoded)
	if err != nil || sealed.Signatures[0].KeyID != hex.EncodeToString(id[:]) {
		t.Errorf("%v: the key is %s", err, sealed.Signatures[0].KeyID)
	}
}

func TestPreAuthEncodingOfDSSE(t *testing.T) {
	want := "DSSEv1 28 application/vnd.in-toto+json 5 hello"
	if got := string(preAuthEncoding([]byte("hello"))); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestInvalidKeysAreRefusedAndNotRepeated(t *testing.T) {
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Must(t, err)
	dir := t.TempDir()
	for name, path := range map[string]string{
		"another kind of key": writeKey(t, t.TempDir(), other),
		"a public key":        writePEM(t, filepath.Join(dir, "public"), "PUBLIC KEY", []byte("hunter2")),
		"no key":              writePEM(t, filepath.Join(dir, "none"), "PRIVATE KEY", []byte("hunter2")),
		"a missing file":      filepath.Join(dir, "missing"),
	} {
		content, _ := os.ReadFile(path)
		_, err := readKey(path)
		if err == nil || strings.Contains(err.Error(), "hunter2") || len(content) > 0 && strings.Contains(err.Error(), string(content[:20])) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestKeyInReleasedFolderIsRefused(t *testing.T) {
	key, elsewhere := newKey(t)
	source, out := t.TempDir(), t.TempDir()
	link := filepath.Join(t.TempDir(), "link.pem")
	inSource := writeKey(t, source, key)
	testkit.Must(t, os.Symlink(inSource, link))
	for path, refused := range map[string]bool{elsewhere: false, inSource: true, writeKey(t, out, key): true, link: true} {
		r := release{source: source, out: out}
		if err := r.useKey(path); (err != nil) != refused || (r.key == nil) != refused {
			t.Errorf("%s: got %v", path, err)
		}
	}
	r := release{source: source, out: filepath.Join(t.TempDir(), "not", "there", "yet")}
	if err := r.useKey(elsewhere); err != nil {
		t.Error(err)
	}
}

func TestUnsignedReleaseRemovesOldSignatures(t *testing.T) {
	key, _ := newKey(t)
	r := release{out: t.TempDir(), version: "1.2.3", key: key}
	testkit.Must(t, writeSums(r.out, nil))
	names, err := r.sign([]byte("{}"))
	if err != nil || len(names) != 2 {
		t.Fatalf("wrote %q, %v", names, err)
	}
	r.key = nil
	for range 2 {
		if names, err = r.sign([]byte("{}")); err != nil || names != nil {
			t.Errorf("wrote %q, %v", names, err)
		}
	}
	if left, err := os.ReadDir(r.out); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestMissingKeyStopsTheReleaseBeforeTheBuild(t *testing.T) {
	err := run(t.Context(), []string{"-key", filepath.Join(t.TempDir(), "missing"), "-out", t.TempDir()}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("got %v", err)
	}
}
