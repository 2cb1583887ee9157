package main

import (
	"net/http/httptest"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/program"
)

// serveStand starts a stand for the suite of another language, and returns the address of its
// control port.
func serveStand(t *testing.T) string {
	t.Helper()
	s := must.Get(newStand(program.Path(t)))(t)
	control := httptest.NewServer(s.handler())
	t.Cleanup(func() {
		control.Close()
		s.close()
	})
	return control.URL
}
