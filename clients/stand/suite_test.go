package main

import (
	"flag"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/program"
)

// TestMain runs four tests at once also on two cores, because most of them wait for a timeout, a
// server or a program.
func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "4")
	os.Exit(m.Run())
}

// serveStand starts a stand for the suite of another language, and returns the address of its
// control port.
func serveStand(t *testing.T) string {
	t.Helper()
	s, err := newStand(program.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	control := httptest.NewServer(s.handler())
	t.Cleanup(func() {
		control.Close()
		s.close()
	})
	return control.URL
}

// recordInputs looks at each file below a directory, but for installed packages. The go command
// records that in the inputs of the test, so no cached result outlives a change there.
func recordInputs(t *testing.T, dir string) {
	t.Helper()
	must.Do(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "node_modules" {
			return fs.SkipDir
		}
		if err == nil {
			_, err = os.Stat(path)
		}
		return err
	}))
}
