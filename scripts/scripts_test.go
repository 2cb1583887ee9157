// Package scripts has the commands behind the Makefile. Its tests run them with a
// stand-in for the go command, so that they need no network.
package scripts

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// run runs a script with a go command that is the given shell text, and returns the
// exit code and everything printed.
func run(t *testing.T, goCommand string, script string, args ...string) (code int, printed string) {
	t.Helper()
	fake := filepath.Join(t.TempDir(), "go")
	if err := os.WriteFile(fake, []byte("#!/bin/sh\n"+goCommand+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := exec.Command("./"+script, args...)
	cmd.Env = append(os.Environ(), "GO="+fake, "GOVULNDB=")
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

func TestVulnExitCodes(t *testing.T) {
	for _, tc := range []struct {
		name, govulncheck string
		code              int
		prints            string
	}{
		{"none", `echo "No vulnerabilities found."`, 0, "No vulnerabilities"},
		{"found", `echo "Vulnerability #1: GO-2026-1"; echo "exit status 3" >&2; exit 1`, 3, "GO-2026-1"},
		{"database unreachable", `echo 'govulncheck: fetching vulnerabilities: Get "https://vuln.go.dev/index/modules.json.gz": no such host' >&2; echo "exit status 1" >&2; exit 1`,
			4, "NOT CHECKED: the database https://vuln.go.dev cannot be reached"},
		{"another failure", `echo "main.go:1:1: expected 'package'" >&2; echo "exit status 1" >&2; exit 1`, 1, "expected 'package'"},
	} {
		code, printed := run(t, tc.govulncheck, "vuln")
		if code != tc.code || !strings.Contains(printed, tc.prints) {
			t.Errorf("%s: exit code %d, want %d; it printed\n%s\nwant %q in it", tc.name, code, tc.code, printed, tc.prints)
		}
	}
}

func TestVulnIsPinned(t *testing.T) {
	if _, printed := run(t, `echo "$2"`, "vuln"); !regexp.MustCompile(`@v\d+\.\d+\.\d+\n`).MatchString(printed) {
		t.Errorf("scripts/vuln runs %q, want an exact version", printed)
	}
}

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestPinImages(t *testing.T) {
	for _, from := range []string{"golang:1.26-bookworm", "golang:1.26-bookworm@sha256:old"} {
		file := filepath.Join(t.TempDir(), "Dockerfile")
		before := "# FROM a comment\nFROM " + from + " AS build\nRUN make\n\nFROM scratch\nCOPY --from=build /weir /weir\n"
		if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		code, printed := run(t, `[ "$3 $4" = "digest golang:1.26-bookworm" ] && echo `+digest, "pin-images", file)
		after, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Replace(before, from, "golang:1.26-bookworm@"+digest, 1)
		if code != 0 || string(after) != want {
			t.Errorf("from %s: exit code %d, it printed %sthe file is now\n%s\nwant\n%s", from, code, printed, after, want)
		}

		code, printed = run(t, `echo "no such host" >&2; exit 1`, "pin-images", file)
		if now, err := os.ReadFile(file); code != 1 || !bytes.Equal(now, after) || !strings.Contains(printed, "is unchanged") {
			t.Errorf("without a registry: exit code %d, %v, it printed %sthe file is now\n%s", code, err, printed, now)
		}
	}
}

// TestFuzz runs stand-ins for three targets: one passes, one finds an input, one ends
// by the race of go.dev/issue/75804.
func TestFuzz(t *testing.T) {
	goCommand := func(outcome string) string {
		return `case "$*" in
*-list*) printf 'FuzzA\nFuzzB\nok\texample.com/p\t0.1s\nok\texample.com/q\t0.1s\n' ;;
*FuzzA*) echo "fuzz: elapsed: 1s, execs: 7 (7/sec)" ;;
*FuzzB*) ` + outcome + ` ;;
esac`
	}
	for _, tc := range []struct {
		name, outcome string
		code          int
		prints        []string
	}{
		{"passes", `echo "fuzz: elapsed: 1s, execs: 9 (9/sec)"`, 0, []string{"ok    example.com/p FuzzA execs: 7", "ok    example.com/p FuzzB execs: 9"}},
		{"finds an input", `printf '%s\n' "--- FAIL: FuzzB" "    Failing input written to testdata/fuzz/FuzzB/1"; exit 1`, 1, []string{"FAIL  example.com/p FuzzB", "testdata/fuzz/FuzzB/1", "ok    example.com/p FuzzA"}},
		{"loses the race", `printf '%s\n' "--- FAIL: FuzzB" "    context deadline exceeded" FAIL; exit 1`, 0, []string{"ok    example.com/p FuzzB (no failing input"}},
		{"fails before fuzzing", `echo "--- FAIL: FuzzB/seed#0"; exit 1`, 1, []string{"FAIL  example.com/p FuzzB", "seed#0"}},
	} {
		code, printed := run(t, goCommand(tc.outcome), "fuzz", "1s")
		if code != tc.code {
			t.Errorf("%s: exit code %d, want %d", tc.name, code, tc.code)
		}
		for _, want := range tc.prints {
			if !strings.Contains(printed, want) {
				t.Errorf("%s: it printed\n%s\nwant %q in it", tc.name, printed, want)
			}
		}
	}
	if code, _ := run(t, `echo "./a.go:1:1: syntax error" >&2; exit 1`, "fuzz", "1s"); code == 0 {
		t.Error("a build error ends scripts/fuzz with 0")
	}
}
