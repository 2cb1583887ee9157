package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
)

// TestPython runs the tests of clients/python, and reports each of them, with one stand and one
// installation of the packages that they use.
func TestPython(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	python, packages := needs.Python(t, "../python/tests/requirements.txt")
	for _, dir := range []string{"../python", "../../docs/python.md", "../../examples/python-flask"} {
		recordInputs(t, dir)
	}
	env := append(os.Environ(), "WEIR_STAND="+serveStand(t), "PYTHONPATH=src:"+packages, "PYTHONDONTWRITEBYTECODE=1")
	paths, err := filepath.Glob("../python/tests/test_*.py")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range paths {
		module := strings.TrimSuffix(filepath.Base(file), ".py")
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), python, "-m", "tests", module)
			cmd.Dir, cmd.Env = "../python", env
			runUnittest(t, cmd)
		})
	}
}

// outcome is a line of the tests in Python.
type outcome struct {
	Test    string
	Outcome string // passed, failed or skipped
	Text    string // the failure, or the missing thing and the next step
}

// runUnittest runs tests in Python, and reports each of them as a test.
func runUnittest(t *testing.T, cmd *exec.Cmd) {
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	must.Do(t, cmd.Start())
	reported := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var o outcome
		if json.Unmarshal(lines.Bytes(), &o) != nil {
			t.Log(lines.Text())
			continue
		}
		reported++
		t.Run(o.Test, func(t *testing.T) {
			thing, next, _ := strings.Cut(o.Text, "; ")
			switch o.Outcome {
			case "failed":
				t.Error(o.Text)
			case "skipped":
				needs.Have(t, thing, false, next)
			}
		})
	}
	if err := cmd.Wait(); err != nil && !t.Failed() || reported == 0 {
		t.Errorf("%s: %v after %d tests\n%s", cmd, err, reported, log.String())
	}
}
