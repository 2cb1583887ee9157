// Package docsrun_test runs the commands of the README and of pages, and the programs of
// docs/migrating.md. Package docstest checks what pages say without running it.
package docsrun_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// root is the directory of the checkout, seen from here.
const root = "../../../.."

// read returns the file at a path relative to root.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// output runs a command and returns its standard output.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, stderr.String())
	}
	return string(out)
}
