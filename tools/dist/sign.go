package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// signatureName is the file with the signature of the checksums: the 64 bytes of Ed25519 over the whole file, which OpenSSL verifies.
const signatureName = sumsName + ".sig"

// payloadType is the type of a signed provenance.
const payloadType = "application/vnd.in-toto+json"

// readKey reads an Ed25519 private key in PKCS #8 and PEM. Its errors contain no part of the file.
func readKey(path string) (ed25519.PrivateKey, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(content)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, fmt.Errorf("%s is not a private key in PEM (PKCS #8); create one with openssl genpkey -algorithm ed25519", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s is not a private key in PKCS #8", path)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s is not an Ed25519 key", path)
	}
	return key, nil
}

// useKey reads the signing key from a file. It does nothing if the path is empty.
func (r *release) useKey(path string) (err error) {
	if path == "" {
		return nil
	}
	if err := checkOutside(path, r.source, r.out); err != nil {
		return err
	}
	r.key, err = readKey(path)
	return err
}

// checkOutside returns an error if the key is in one of the folders, whose files are published.
func checkOutside(key string, folders ...string) error {
	at, err := resolve(key)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		root, err := resolve(folder)
		if errors.Is(err, os.ErrNotExist) {
			continue // the folder does not exist, so it contains no key
		}
		if err != nil {
			return err
		}
		if relative, err := filepath.Rel(root, at); err == nil && filepath.IsLocal(relative) {
			return fmt.Errorf("the key %s is in %s, whose files are published: move it to another folder", key, folder)
		}
	}
	return nil
}

// resolve returns the absolute path of a file with links resolved.
func resolve(path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(absolute)
}

// sign writes the signature of the checksums and the provenance in a signed envelope, and returns their names. Without a key it removes
// those of an earlier release.
func (r release) sign(statement []byte) ([]string, error) {
	envelopeName := r.name() + ".intoto.jsonl"
	if r.key == nil {
		for _, name := range []string{signatureName, envelopeName} {
			if err := os.Remove(filepath.Join(r.out, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
		}
		return nil, nil
	}
	sums, err := os.ReadFile(filepath.Join(r.out, sumsName))
	if err != nil {
		return nil, err
	}
	signed, err := envelope(r.key, statement)
	if err != nil {
		return nil, err
	}
	for name, content := range map[string][]byte{signatureName: ed25519.Sign(r.key, sums), envelopeName: signed} {
		if err := os.WriteFile(filepath.Join(r.out, name), content, 0o644); err != nil {
			return nil, err
		}
	}
	return []string{signatureName, envelopeName}, nil
}

// signedPayload is an envelope of DSSE (Dead Simple Signing Envelope) 1.0.
type signedPayload struct {
	PayloadType string      `json:"payloadType"`
	Payload     string      `json:"payload"`
	Signatures  []signature `json:"signatures"`
}

type signature struct {
	KeyID string `json:"keyid"` // SHA-256 of the public key (PKIX, DER) in hex
	Sig   string `json:"sig"`
}

// envelope returns a statement in a signed envelope on one line.
func envelope(key ed25519.PrivateKey, statement []byte) ([]byte, error) {
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	id := sha256.Sum256(public)
	text, err := json.Marshal(signedPayload{
		PayloadType: payloadType, Payload: base64.StdEncoding.EncodeToString(statement),
		Signatures: []signature{{
			KeyID: hex.EncodeToString(id[:]), Sig: base64.StdEncoding.EncodeToString(ed25519.Sign(key, preAuthEncoding(statement))),
		}},
	})
	return append(text, '\n'), err
}

// preAuthEncoding returns the signed bytes of a statement in an envelope.
func preAuthEncoding(statement []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(statement), statement)
}
