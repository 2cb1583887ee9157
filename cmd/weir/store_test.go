package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirdisk"
)

// Serve ends with an error if the store rejects its password, also after startTimeout.
func TestServeEndsOnWrongPassword(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "s3cret")
	p := redistest.NewProxy(t, server.Addr)
	p.Latency(startTimeout, startTimeout+50*time.Millisecond)
	out, err := exec.Command("weir", "serve", "--listen", "127.0.0.1:0", "--store", "redis://:wr0ng@"+p.Addr).CombinedOutput()
	var exit *exec.ExitError
	said := string(out)
	if !errors.As(err, &exit) || exit.ExitCode() != exitStore || !strings.Contains(said, "weir listens on") || !strings.Contains(said, "weir serve: store: refused: redis://"+p.Addr+": it rejects user or password (WRONGPASS)") {
		t.Errorf("%v, want exit code %d; it said:\n%s", err, exitStore, said)
	}
	if strings.Contains(said, "wr0ng") {
		t.Errorf("stderr has the password:\n%s", said)
	}
}

// TestDumpTellsAllKeysApart: a value of a key or an idempotency key can be any bytes, and can be
// read from a dump.
func TestDumpTellsAllKeysApart(t *testing.T) {
	values := []string{"a", "\ufffd", "\xff", "\xfe", "/w==", "\x00", "a\u202e"}
	dir := t.TempDir()
	e := must.Get(weirdisk.Open(dir))(t)
	l := must.Get(weir.New(weir.Policy{Name: "p", Limits: []weir.Limit{weir.PerDay(5, "user", "host")}}, weir.WithEngine(e)))(t)
	want := map[string]bool{}
	for _, v := range values {
		want[fmt.Sprintf("%q", []string{"b", v, ""})] = true
		must.Get(l.Allow(t.Context(), weir.K("b", v)))(t)
		want[fmt.Sprintf("%q", []string{v, "c", v})] = true
		want[fmt.Sprintf("%q", []string{v, "c", ""})] = true
		must.Get(l.AllowOnce(t.Context(), weir.K(v, "c"), 1, v))(t)
	}
	must.Do(t, e.Close())
	code, stdout, stderr := runWeir("store", "dump", dir)
	got := map[string]bool{}
	for line := range strings.Lines(stdout) {
		var d struct {
			Key       map[string]string `json:"key"`
			Bytes     map[string][]byte `json:"key_base64"`
			Operation struct {
				ID    string `json:"id"`
				Bytes []byte `json:"id_base64"`
			} `json:"operation"`
		}
		must.Do(t, json.Unmarshal([]byte(line), &d))
		for name, b := range d.Bytes {
			d.Key[name] += string(b) // a value is in one of them
		}
		got[fmt.Sprintf("%q", []string{d.Key["user"], d.Key["host"], d.Operation.ID + string(d.Operation.Bytes)})] = true
	}
	if code != 0 || !maps.Equal(got, want) {
		t.Errorf("code %d, %s\ngot  %v\nwant %v", code, stderr, got, want)
	}
}
