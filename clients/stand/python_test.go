package main

import (
	"bufio"
	"encoding/json"
	"io/fs"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/internal/testkit/program"
)

// outcome is a line of the tests of clients/python.
type outcome struct {
	Test    string
	Outcome string // passed, failed or skipped
	Text    string // the failure, or the missing thing and the next step
}

// TestPython runs the tests of clients/python, and reports each of them.
func TestPython(t *testing.T) {
	needs.Time(t)
	python, packages := needs.Python(t, "../python/tests/requirements.txt")
	s := must.Get(newStand(program.Path(t)))(t)
	t.Cleanup(s.close)
	control := httptest.NewServer(s.handler())
	t.Cleanup(control.Close)
	statFiles(t, "../python") // or a result would be repeated after a change there

	cmd := exec.Command(python, "-m", "tests")
	cmd.Dir = "../python"
	cmd.Env = append(os.Environ(), "PYTHONPATH=src:"+packages, "PYTHONDONTWRITEBYTECODE=1", "WEIR_STAND="+control.URL)
	var log strings.Builder
	cmd.Stderr = &log
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	passed := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var o outcome
		if json.Unmarshal(lines.Bytes(), &o) != nil {
			t.Log(lines.Text())
			continue
		}
		passed++
		t.Run(strings.TrimPrefix(o.Test, "tests."), func(t *testing.T) {
			thing, next, _ := strings.Cut(o.Text, "; ")
			switch o.Outcome {
			case "failed":
				t.Error(o.Text)
			case "skipped":
				needs.Have(t, thing, false, next)
			}
		})
	}
	if err := cmd.Wait(); err != nil && !t.Failed() || passed == 0 {
		t.Errorf("python3 -m tests: %v after %d tests\n%s", err, passed, log.String())
	}
}

// statFiles looks at each file below a directory. The go command records that in the inputs of the
// test.
func statFiles(t *testing.T, dir string) {
	t.Helper()
	must.Do(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		_, err = os.Stat(path)
		return err
	}))
}
