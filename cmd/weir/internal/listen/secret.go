package listen

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"os"
	"strings"
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
	key                []byte // random, for the digests
	*watched[[]digest]        // of the words
}

type digest [sha256.Size]byte

// SecretFile reads a secret from a file: one word per line, at most two. Empty lines and
// lines that begin with # are ignored. The file is read again within a second of the
// first use after a change. If that fails onError gets the error, and the old value
// stays. It also gets a *WorldReadableError at each read of a file that other users can
// read. onError may be nil.
func SecretFile(path string, onError func(error)) (*Secret, error) {
	s := &Secret{key: []byte(rand.Text())}
	var err error
	s.watched, err = newWatched(func() (*[]digest, error) {
		text, err := ReadSecret(path, nil) // newWatched reports a file that others can read
		if err != nil {
			return nil, err
		}
		all, err := s.digests(strings.Split(text, "\n"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return &all, nil
	}, onError, path, path)
	return s, err
}

// SecretText reads a secret from text, such as an environment variable: one word, or two
// separated by a space.
func SecretText(text string) (*Secret, error) {
	s := &Secret{key: []byte(rand.Text())}
	all, err := s.digests(strings.Fields(text))
	if err != nil {
		return nil, err
	}
	s.watched, err = newWatched(func() (*[]digest, error) { return &all, nil }, nil, "")
	return s, err
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
	for _, word := range *w.secret.get() {
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

// digests checks words and returns their digests. Its errors contain no part of a word.
func (s *Secret) digests(lines []string) (all []digest, err error) {
	for i, line := range lines {
		word := strings.TrimSpace(line)
		if word == "" || word[0] == '#' {
			continue
		}
		switch {
		case len(word) < MinSecret || len(word) > maxSecret:
			return nil, fmt.Errorf("the secret in line %d has %d characters, it must have %d to %d; openssl rand -hex 32 makes a good one",
				i+1, len(word), MinSecret, maxSecret)
		case strings.IndexFunc(word, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0:
			return nil, fmt.Errorf("the secret in line %d holds a space or a character beyond ASCII; openssl rand -hex 32 makes a good one", i+1)
		case len(all) == 2:
			return nil, errors.New("there are more than two secrets; keep the one in use and the one to come")
		}
		all = append(all, s.digest(word))
	}
	if len(all) == 0 {
		return nil, errors.New("there is no secret; openssl rand -hex 32 makes a good one")
	}
	return all, nil
}

// digest returns the keyed digest of a word.
func (s *Secret) digest(word string) (d digest) {
	h := hmac.New(sha256.New, s.key)
	h.Write([]byte(word))
	h.Sum(d[:0])
	return d
}

// ReadSecret reads a file of at most 4 KiB. A larger file or a device is an error and is
// not read. onError, which may be nil, gets a *WorldReadableError if other users can read
// the file.
func ReadSecret(path string, onError func(error)) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxSecretFile {
		return "", fmt.Errorf("%s is not a regular file of at most %d bytes", path, maxSecretFile)
	}
	if err := checkPrivate(path, info); err != nil && onError != nil {
		onError(err)
	}
	b, err := os.ReadFile(path)
	return string(b), err
}
