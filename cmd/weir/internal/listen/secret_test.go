package listen

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const (
	oldWord = "the-old-secret-0123456789"
	newWord = "the-new-secret-9876543210"
)

// write replaces a file atomically.
func write(t *testing.T, path, text string) {
	t.Helper()
	writeInPlace(t, path+".new", text)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// writeInPlace writes a file at the instant of the test's clock.
func writeInPlace(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Now(), time.Now()); err != nil {
		t.Fatal(err)
	}
}

// TestHalfWrittenSecretIsNotUsed: a file that is rewritten in place is read when it is complete,
// also with the clock of another machine.
func TestHalfWrittenSecretIsNotUsed(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "secret")
			write(t, path, oldWord)
			s, err := SecretFile(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(checkInterval)
			for n := MinSecret; n <= len(newWord); n++ {
				writeInPlace(t, path, newWord[:n])
				os.Chtimes(path, time.Time{}, time.Now().Add(ahead))
				if !s.Matches(oldWord) || s.Matches(newWord[:n]) {
					t.Fatalf("%v ahead: %d of %d characters of the file are used", ahead, n, len(newWord))
				}
				time.Sleep(settle / 2)
			}
			for range 2 { // the first check may find the change, and the second one reads it
				time.Sleep(settle)
				s.Matches(oldWord)
			}
			if !s.Matches(newWord) {
				t.Errorf("%v ahead: the complete file is not used", ahead)
			}
		})
	}
}

func TestSecretRotates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "secret")
		write(t, path, oldWord+"\n")
		var reported []error
		s, err := SecretFile(path, func(err error) { reported = append(reported, err) })
		if err != nil {
			t.Fatal(err)
		}
		expect := func(when string, old, new bool) {
			t.Helper()
			if s.Matches(oldWord) != old || s.Matches(newWord) != new {
				t.Errorf("%s: old %t, new %t; want %t, %t", when, s.Matches(oldWord), s.Matches(newWord), old, new)
			}
		}
		expect("at first", true, false)
		write(t, path, "# the old one, and the one to come\n"+oldWord+"\r\n\n"+newWord+"\n")
		expect("within the second", true, false)
		time.Sleep(checkInterval)
		expect("a second later", true, true)
		write(t, path, newWord)
		if err := s.Reload(); err != nil {
			t.Error(err)
		}
		expect("after Reload", false, true)

		write(t, path, "short")
		for range 3 {
			time.Sleep(checkInterval)
			expect("with a bad file", false, true)
		}
		if len(reported) != 1 || !strings.Contains(reported[0].Error(), "has 5 characters") || strings.Contains(reported[0].Error(), "short") {
			t.Errorf("reported %q, want once the number of characters, not the characters", reported)
		}
		os.Remove(path)
		time.Sleep(checkInterval)
		expect("without a file", false, true)
		if len(reported) != 2 {
			t.Errorf("reported %q, want also the missing file", reported)
		}
		write(t, path, oldWord)
		time.Sleep(checkInterval)
		expect("with a good file", true, false)
	})
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

// TestWorldReadableSecretIsReported at the first read, at every reload and after a change,
// and is used.
func TestWorldReadableSecretIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "secret")
		write(t, path, oldWord)
		var reported []error
		load := func() *Secret {
			s, err := SecretFile(path, func(err error) { reported = append(reported, err) })
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		expect := func(when string, n int) {
			t.Helper()
			readable := new(WorldReadableError)
			if len(reported) != n || n > 0 && (!errors.As(reported[n-1], &readable) || readable.Path != path || !strings.Contains(readable.Error(), "chmod o= "+path)) {
				t.Errorf("%s: reported %q, want %d times that others can read the file", when, reported, n)
			}
		}
		s := load()
		expect("mode 0600", 0)
		os.Chmod(path, 0o640)
		s.Reload()
		expect("mode 0640", 0)
		os.Chmod(path, 0o644)
		s = load()
		expect("at first", 1)
		s.Reload()
		expect("after Reload", 2)
		time.Sleep(checkInterval)
		s.Matches(oldWord)
		expect("without a change", 2)
		writeInPlace(t, path, newWord+"\n")
		time.Sleep(checkInterval)
		if !s.Matches(newWord) {
			t.Error("a world-readable file is not used")
		}
		expect("after a change", 3)
	})
}
