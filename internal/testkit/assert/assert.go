// Package assert compares a result with the one that a test wants. A difference fails the test,
// which goes on. Package must ends a test instead.
package assert

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Equal fails the test unless got is want. The text names the value with its inputs:
//
//	assert.Equal(t, len("ab"), 2, "the length of %q", "ab")
func Equal[T comparable](t testing.TB, got, want T, about string, args ...any) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\ngot  %+v\nwant %+v", fmt.Sprintf(about, args...), got, want)
	}
}

// Error fails the test unless err is want and has all of the texts. Without want any error will do.
func Error(t testing.TB, err, want error, texts ...string) {
	t.Helper()
	ok := err != nil && (want == nil || errors.Is(err, want))
	for _, text := range texts {
		ok = ok && strings.Contains(err.Error(), text)
	}
	if !ok {
		t.Errorf("got the error %v\nwant %v, with %q", err, want, texts)
	}
}

// Recovered returns the value with which a call panics, nil if it returns.
func Recovered(call func()) (value any) {
	defer func() { value = recover() }()
	call()
	return nil
}
