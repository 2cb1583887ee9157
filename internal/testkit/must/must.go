// Package must ends a test if its preparation fails, for example because a file cannot be read or
// a port is taken. A test compares the errors of its subject itself.
package must

import (
	"testing"
	"time"
)

// Do fails the test with the error of a call, if there is one.
func Do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// patience is far more than any condition should take.
const patience = time.Minute

// Await waits until a condition holds, or fails the test.
func Await(t testing.TB, condition string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not after %v: %s", patience, condition)
		}
	}
}
