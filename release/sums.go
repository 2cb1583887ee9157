package main

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"aead.dev/minisign"
)

// The names of the files that prove the bytes of all others.
const (
	sumsName      = "SHA256SUMS"
	signatureName = "SHA256SUMS.minisig"
	publicName    = "weir.pub"
	throwAwayName = "weir-throw-away.pub"
)

// A signingKey signs the checksums.
type signingKey struct {
	minisign.PrivateKey
	throwAway bool
}

// readKey reads a private key of minisign. If file is "", it makes a throw-away key.
func readKey(file string) (signingKey, error) {
	if file == "" {
		_, private, err := minisign.GenerateKey(rand.Reader)
		return signingKey{private, true}, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return signingKey{}, fmt.Errorf("the key of minisign: %w", err)
	}
	var private minisign.PrivateKey
	if !minisign.IsEncrypted(text) {
		err = private.UnmarshalText(text)
	} else if private, err = minisign.DecryptKey(os.Getenv("MINISIGN_PASSWORD"), text); err != nil {
		err = fmt.Errorf("%w; is $MINISIGN_PASSWORD its password?", err)
	}
	if err != nil {
		return signingKey{}, fmt.Errorf("%s is no private key of minisign that can be read: %w", file, err)
	}
	return signingKey{private, false}, nil
}

// public returns the public key.
func (k signingKey) public() minisign.PublicKey { return k.Public().(minisign.PublicKey) }

// sign writes install.sh with the public key, the checksums of all files, and their signature.
func sign(s *source, key signingKey, dir string) error {
	public, err := key.public().MarshalText()
	if err != nil {
		return err
	}
	name := publicName
	if key.throwAway {
		name = throwAwayName
	}
	if err := os.WriteFile(filepath.Join(dir, name), append(public, '\n'), 0o644); err != nil {
		return err
	}
	if err := writeInstaller(s, key, dir); err != nil {
		return err
	}
	sums, err := checksums(dir)
	if err != nil {
		return err
	}
	// A trusted comment usually has the time. This one is the same in each build.
	trusted := "weir " + s.version + " " + sumsName
	signature := minisign.SignWithComments(key.PrivateKey, sums, trusted, "signature of "+sumsName)
	if err := os.WriteFile(filepath.Join(dir, sumsName), sums, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, signatureName), signature, 0o644)
}

// keyLine is the line of install.sh that gets the public key.
const keyLine = "\npublic_key=\n"

// writeInstaller copies install.sh with the public key.
func writeInstaller(s *source, key signingKey, dir string) error {
	text, err := s.read("install.sh")
	if err != nil {
		return err
	}
	if strings.Count(string(text), keyLine) != 1 {
		return fmt.Errorf("install.sh has no line %q for the public key", strings.TrimSpace(keyLine))
	}
	line := strings.TrimSuffix(keyLine, "\n") + key.public().String() + "\n"
	text = []byte(strings.Replace(string(text), keyLine, line, 1))
	return os.WriteFile(filepath.Join(dir, "install.sh"), text, 0o755)
}

// checksums returns a line for each file of a directory, as sha256sum -c reads it. The layout of the
// image has checksums of its own, and stands here as an archive.
func checksums(dir string) ([]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	return b.Bytes(), nil
}
