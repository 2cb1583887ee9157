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
	// MinSecret is the fewest characters a secret may have.
	MinSecret = 16

	maxSecret     = 512     // characters
	maxSecretFile = 4 << 10 // bytes
)

// Secret is what a caller must show. It holds one word, or two while one takes the
// place of the other: then either will do. It keeps digests alone, so nothing can
// print it. A nil Secret matches nothing.
type Secret struct {
	key   []byte // of the digests, random
	words *watched[[]digest]
}

type digest [sha256.Size]byte

// SecretFile reads a secret from a file: a word a line, at most two; empty lines
// and those that begin with # say nothing. It is read again within a second of
// the first use after a change. told gets the error of a change that cannot be read,
// while the value before stays, and *WorldReadableError at each read of a file that others can
// read; it may be nil.
func SecretFile(path string, told func(error)) (*Secret, error) {
	s := &Secret{key: randomKey()}
	var err error
	s.words, err = newWatched(func() (*[]digest, error) {
		text, err := readSmall(path)
		if err != nil {
			return nil, err
		}
		all, err := s.digests(strings.Split(text, "\n"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return &all, nil
	}, told, path, path)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// SecretText reads a secret from text, such as a variable of the environment: a
// word, or two with a space between.
func SecretText(text string) (*Secret, error) {
	s := &Secret{key: randomKey()}
	all, err := s.digests(strings.Fields(text))
	if err != nil {
		return nil, err
	}
	s.words, err = newWatched(func() (*[]digest, error) { return &all, nil }, nil, "")
	return s, err
}

// Matches reports whether shown is one of the words, in a time that does not
// depend on how much of it is right.
func (s *Secret) Matches(shown string) bool { return s.Credential(shown).Valid() }

// Shown is a word that a caller has shown. It keeps the digest alone.
type Credential struct {
	secret *Secret // nil for a word that can match nothing
	digest digest
}

// Shown returns the word for callers that are asked once and stay connected.
func (s *Secret) Credential(word string) Credential {
	if s == nil || len(word) > maxSecret {
		return Credential{}
	}
	return Credential{s, s.digest(word)}
}

// Valid reports whether the word is one of the secret's now: it may have been replaced
// since it was shown.
func (w Credential) Valid() bool {
	if w.secret == nil {
		return false
	}
	found := 0
	for _, word := range *w.secret.words.get() {
		found |= subtle.ConstantTimeCompare(word[:], w.digest[:])
	}
	return found == 1
}

// Reload reads the file now.
func (s *Secret) Reload() error { return s.words.reload() }

// Bearer returns the token of an Authorization field, "" if it holds none.
func Bearer(authorization string) string {
	scheme, token, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// digests checks words and forgets them. Its errors hold nothing of a word.
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

func (s *Secret) digest(word string) (d digest) {
	h := hmac.New(sha256.New, s.key)
	h.Write([]byte(word))
	h.Sum(d[:0])
	return d
}

func randomKey() []byte {
	key := make([]byte, sha256.Size)
	rand.Read(key) // never fails: it ends the program if it cannot
	return key
}

// readSmall reads a file that must be small: a path that leads to something else
// by mistake is told of, not read to its end.
func readSmall(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxSecretFile {
		return "", fmt.Errorf("%s is no file of at most %d bytes", path, maxSecretFile)
	}
	b, err := os.ReadFile(path)
	return string(b), err
}
