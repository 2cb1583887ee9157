package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/needs"
)

// TestNode runs the tests of clients/node, each file as a test of its own, with one stand and one
// installation of the packages that they use.
func TestNode(t *testing.T) {
	t.Parallel()
	node := needs.Program(t, "node")
	needs.Program(t, "redis-server") // for the store of another package
	modules := needs.Modules(t, "../node/test/modules")
	recordInputs(t, "../node")
	recordInputs(t, "../../examples/node-express")
	recordInputs(t, "../../examples/node-frameworks")
	env := append(os.Environ(), "WEIR_STAND="+serveStand(t), "WEIR_NODE_MODULES="+modules)
	paths, err := filepath.Glob("../node/test/*.test.mjs")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".test.mjs"), func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), node, "--test", "--test-reporter=spec", file)
			cmd.Env = env
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("node --test %s: %v\n%s", file, err, failures(string(out)))
			}
			for line := range strings.Lines(string(out)) {
				if strings.HasPrefix(line, "over ") || strings.HasPrefix(line, "most requests ") {
					t.Log(strings.TrimSpace(line))
				}
			}
		})
	}
}

// failures returns the part of a report that describes failures.
func failures(report string) string {
	if _, failed, ok := strings.Cut(report, "failing tests:"); ok {
		return failed
	}
	return report
}
