package listen

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
)

const (
	oldWord = "the-old-secret-0123456789"
	newWord = "the-new-secret-9876543210"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestSecretRotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	write(t, path, oldWord+"\n")
	s, err := SecretFile(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(when string, old, new bool) {
		t.Helper()
		if s.Matches(oldWord) != old || s.Matches(newWord) != new {
			t.Errorf("%s: old %t, new %t; want %t, %t", when, s.Matches(oldWord), s.Matches(newWord), old, new)
		}
	}
	reload := func(problem string) {
		t.Helper()
		if err := s.Reload(); (err == nil) != (problem == "") || err != nil && (!strings.Contains(err.Error(), problem) || !strings.Contains(err.Error(), path)) {
			t.Errorf("Reload: %v, want %q and the path", err, problem)
		}
	}
	expect("at first", true, false)
	write(t, path, "# the old one, and the one to come\n"+oldWord+"\r\n\n"+newWord+"\n")
	expect("before Reload", true, false)
	reload("")
	expect("with both", true, true)
	write(t, path, newWord)
	reload("")
	expect("with the new one", false, true)
	write(t, path, "short")
	reload("has 5 characters")
	expect("with a bad file", false, true)
	os.Remove(path)
	reload("no such file")
	expect("without a file", false, true)
	write(t, path, oldWord)
	reload("")
	expect("with a good file", true, false)
}

func TestSecretMatches(t *testing.T) {
	s, err := SecretText(oldWord + "  " + newWord)
	if err != nil {
		t.Fatal(err)
	}
	if !s.Matches(oldWord) || !s.Matches(newWord) {
		t.Error("its own words do not match")
	}
	for _, shown := range []string{"", oldWord + "x", oldWord[1:], oldWord + " " + newWord, strings.Repeat("x", 1<<20)} {
		if s.Matches(shown) {
			t.Errorf("%.40q matches", shown)
		}
	}
	if (*Secret)(nil).Matches("") {
		t.Error("a nil Secret matches the empty word")
	}
}

func TestBadSecrets(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "there is no secret",
		" \n\t":                                 "there is no secret",
		"fifteen-letters":                       "has 15 characters",
		strings.Repeat("x", maxSecret+1):        "has 513 characters",
		"sixteen-letters-\x7f":                  "beyond ASCII",
		oldWord + " " + newWord + " " + oldWord: "more than two",
	} {
		_, err := SecretText(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want an error with %q", text, err, want)
		}
		for _, word := range strings.Fields(text) {
			if err != nil && strings.Contains(err.Error(), word) {
				t.Errorf("the error %q holds a secret", err)
			}
		}
	}
	if _, err := SecretFile(t.TempDir(), nil); err == nil {
		t.Error("a directory as a secret: no error")
	}
}

// TestSecretIsNotPrinted by any verb of fmt.
func TestSecretIsNotPrinted(t *testing.T) {
	s, err := SecretText(oldWord)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%v %+v %#v", s, s, s); strings.Contains(got, oldWord) {
		t.Errorf("printed as %s", got)
	}
}

func TestBearer(t *testing.T) {
	for field, want := range map[string]string{
		"Bearer abc": "abc", "bearer  abc ": "abc", "BEARER abc": "abc",
		"Basic abc": "", "Bearer": "", "": "", "abc": "",
	} {
		if got := Bearer(field); got != want {
			t.Errorf("%q: %q, want %q", field, got, want)
		}
	}
}

// TestWorldReadableSecretIsReported at every read, and is used.
func TestWorldReadableSecretIsReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	write(t, path, oldWord)
	var reported []error
	s, err := SecretFile(path, func(err error) { reported = append(reported, err) })
	if err != nil {
		t.Fatal(err)
	}
	expect := func(when string, n int) {
		t.Helper()
		if len(reported) != n || n > 0 && reported[n-1].Error() != "every user of this machine can read the secret in "+path+"; chmod o= "+path {
			t.Errorf("%s: reported %q, want %d times that others can read the file", when, reported, n)
		}
	}
	expect("mode 0600", 0)
	os.Chmod(path, 0o640)
	s.Reload()
	expect("mode 0640", 0)
	os.Chmod(path, 0o644)
	SecretFile(path, s.warn)
	expect("at first", 1)
	write(t, path, newWord+"\n")
	s.Reload()
	expect("after Reload", 2)
	if !s.Matches(newWord) {
		t.Error("a world-readable file is not used")
	}
}
