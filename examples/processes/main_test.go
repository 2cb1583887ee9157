package main

import (
	"os"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/redistest"
)

// TestMain runs the program instead of the tests in worker processes.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-worker" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestProcessesShareOneLimit(t *testing.T) {
	server := redistest.Start(t)
	var out strings.Builder
	err := run([]string{"-store", "redis://" + server.Addr, "-processes", "3", "-callers", "4",
		"-max", "20", "-window", "150ms", "-for", "1s"}, &out)
	t.Logf("%s", out.String())
	must.Do(t, err)
	if !strings.HasSuffix(out.String(), "never more than 20\n") || strings.Count(out.String(), "  process ") != 3 {
		t.Error("want three processes, and never more than 20")
	}
}

// TestAuditDetectsExcess: the audit fails for too many grants in a window and for a run
// that never reached the limit.
func TestAuditDetectsExcess(t *testing.T) {
	o := &options{max: 2, window: 10_000}
	at := func(called, returned, decided int64) grant { return grant{called, returned, decided} }
	for name, c := range map[string]struct {
		grants []grant
		says   string
	}{
		"within the limit":       {[]grant{at(0, 1, 1), at(1, 2, 2), at(11, 12, 12)}, ""},
		"three in one window":    {[]grant{at(0, 1, 1), at(1, 2, 100), at(3, 4, 200)}, "a window held 3"},
		"three by their instant": {[]grant{at(0, 99, 1), at(0, 99, 2), at(0, 99, 3)}, "a window held 3"},
		"hardly any":             {[]grant{at(0, 1, 1)}, "never reached"},
	} {
		err := audit(o, c.grants, new(strings.Builder))
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %q", name, err, c.says)
		}
	}
}

func TestErrorsNameThePlaceAndNoPassword(t *testing.T) {
	server := redistest.Start(t)
	server.Stop()
	for url, says := range map[string]string{
		"redis://:s3cret@" + server.Addr: server.Addr,
		"redys://:s3cret@" + server.Addr: "redis://host:port",
	} {
		_, _, err := limiter(&options{store: url, max: 1, window: 1e9})
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("got %v, want an error with %q and without the password", err, says)
		}
	}
}
