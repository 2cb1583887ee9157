package listen

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
)

const (
	// MinSecret is the least number of characters of a secret.
	MinSecret = 16

	maxSecret     = 512     // characters
	maxSecretFile = 4 << 10 // bytes
)

// Secret is a shared secret that callers send. It holds one word, or two during a
// rotation; either matches. It stores digests only, so it cannot be printed. A nil Secret
// matches nothing.
type Secret struct {
	key   []byte // random, for the digests
	path  string // the file; "" for a text
	warn  func(error)
	words atomic.Pointer[[]digest]
}

type digest [sha256.Size]byte

// SecretFile reads a secret from a file: one word per line, at most two. Empty lines and
// lines that begin with # are ignored. warn gets an error at each read of a file that
// other users can read; it may be nil.
func SecretFile(path string, warn func(error)) (*Secret, error) {
	s := &Secret{key: []byte(rand.Text()), path: path, warn: warn}
	return s, s.Reload()
}

// SecretText reads a secret from text, such as an environment variable: one word, or two
// separated by a space.
func SecretText(text string) (*Secret, error) {
	s := &Secret{key: []byte(rand.Text())}
	return s, s.set(strings.Fields(text))
}

// Reload reads the file now. After an error the old value stays.
func (s *Secret) Reload() error {
	if s.path == "" {
		return nil
	}
	text, err := ReadSecret(s.path, s.warn)
	if err != nil {
		return err
	}
	if err := s.set(strings.Split(text, "\n")); err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	return nil
}

// Matches reports whether word is one of the secret's words. The comparison takes
// constant time.
func (s *Secret) Matches(word string) bool { return s.Credential(word).Valid() }

// Credential is a word that a caller has sent. It stores the digest only.
type Credential struct {
	secret *Secret // nil: matches nothing
	digest digest
}

// Credential returns the credential of a connection on which the word is sent once.
func (s *Secret) Credential(word string) Credential {
	if s == nil || len(word) > maxSecret {
		return Credential{}
	}
	return Credential{s, s.digest(word)}
}

// Valid reports whether the word is one of the secret's current words. It may have been
// replaced since the client sent it.
func (w Credential) Valid() bool {
	if w.secret == nil {
		return false
	}
	found := 0
	for _, word := range *w.secret.words.Load() {
		found |= subtle.ConstantTimeCompare(word[:], w.digest[:])
	}
	return found == 1
}

// Bearer returns the bearer token of an Authorization field, "" if there is none.
func Bearer(authorization string) string {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// makeSecret is the next step of errors.
const makeSecret = "openssl rand -hex 32 makes a good one"

// set checks words and stores their digests. Its errors contain no part of a word.
func (s *Secret) set(lines []string) error {
	var all []digest
	for i, line := range lines {
		word := strings.TrimSpace(line)
		if word == "" || word[0] == '#' {
			continue
		}
		switch {
		case len(word) < MinSecret || len(word) > maxSecret:
			return fmt.Errorf("the secret in line %d has %d characters, it must have %d to %d; %s",
				i+1, len(word), MinSecret, maxSecret, makeSecret)
		case strings.ContainsFunc(word, func(r rune) bool { return r <= ' ' || r > '~' }):
			return fmt.Errorf("the secret in line %d holds a space or a character beyond ASCII; %s",
				i+1, makeSecret)
		case len(all) == 2:
			return errors.New("there are more than two secrets; keep the one in use and the one to come")
		}
		all = append(all, s.digest(word))
	}
	if len(all) == 0 {
		return errors.New("there is no secret; " + makeSecret)
	}
	s.words.Store(&all)
	return nil
}

// digest returns the keyed digest of a word.
func (s *Secret) digest(word string) (d digest) {
	h := hmac.New(sha256.New, s.key)
	h.Write([]byte(word))
	h.Sum(d[:0])
	return d
}

// ReadSecret reads a file of at most 4 KiB. A larger file or a device is an error and is
// not read. warn, which may be nil, gets an error if other users can read the file.
func ReadSecret(path string, warn func(error)) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxSecretFile {
		return "", fmt.Errorf("%s is not a regular file of at most %d bytes; "+
			"write the secret in a line of a file", path, maxSecretFile)
	}
	warnReadable(path, warn)
	b, err := os.ReadFile(path)
	return string(b), err
}

// warnReadable passes an error to warn if every user of the machine can read the file, which is
// used all the same. Windows has no such mode.
func warnReadable(path string, warn func(error)) {
	if warn == nil || runtime.GOOS == "windows" {
		return
	}
	const othersRead = 0o004
	info, err := os.Stat(path)
	if err == nil && info.Mode().Perm()&othersRead != 0 {
		warn(fmt.Errorf("every user of this machine can read the secret in %s; chmod o= %[1]s", path))
	}
}
