package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
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

// TestDumpTellsAllKeysApart: values of keys and idempotency keys may be any bytes, and a dump
// shows them without loss.
func TestDumpTellsAllKeysApart(t *testing.T) {
	values := []string{"a", "\ufffd", "\xff", "\xfe", "/w==", "\x00", "a\u202e"}
	dir := t.TempDir()
	e, err := weirdisk.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	l, err := weir.New(weir.Policy{Name: "p", Dimensions: []string{"user", "host"}, Limits: []weir.Limit{weir.PerDay(5, "user", "host")}}, weir.WithEngine(e))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for _, v := range values {
		want[fmt.Sprintf("%q", []string{"b", v, ""})] = true
		if _, err := l.Allow(t.Context(), weir.K("b", v)); err != nil {
			t.Fatal(err)
		}
		want[fmt.Sprintf("%q", []string{v, "c", v})] = true
		want[fmt.Sprintf("%q", []string{v, "c", ""})] = true
		if _, err := l.AllowOnce(t.Context(), weir.K(v, "c"), 1, v); err != nil {
			t.Fatal(err)
		}
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
			d.Key[name] += string(b) // each value is in one of the two maps
		}
		got[fmt.Sprintf("%q", []string{d.Key["user"], d.Key["host"], d.Operation.ID + string(d.Operation.Bytes)})] = true
	}
	if code != 0 || !maps.Equal(got, want) {
		t.Errorf("code %d, %s\ngot  %v\nwant %v", code, stderr, got, want)
	}
}

// TestDumpHasBlocksAndReservations: a dump has separate members for a block, a reservation and
// an appointment. weir store check counts the blocks.
func TestDumpHasBlocksAndReservations(t *testing.T) {
	dir := t.TempDir()
	e, err := weirdisk.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	rules := engine.Compile("p", engine.AllOrNothing, nil, []engine.Limit{{Name: "l", Max: 9, Window: 60_000_000, Block: 60_000_000}})
	waiting := engine.Compile("w", engine.AllOrNothing, nil, []engine.Limit{{Name: "l", Max: 2, Window: 60_000_000}})
	calls := []engine.Call{
		{Rules: rules, N: 5, ID: "open", TTL: 1_000_000, At: 1_000_000, Given: true},
		{Rules: rules, N: 2, ID: "done", TTL: 1_000_000, At: 1_000_000, Given: true},
		{Rules: rules, Op: engine.Settle, N: 0, ID: "done", At: 1_500_000, Given: true},
		{Rules: rules, N: 9, At: 2_000_000, Given: true},
		{Rules: waiting, N: 2, At: 2_000_000, Given: true},
		{Rules: waiting, N: 1, ID: "mail", MaxWait: 60_000_000, At: 3_000_000, Given: true},
	}
	e.Do(t.Context(), calls)
	for _, c := range calls {
		must.Do(t, c.Err)
	}
	must.Do(t, e.Close())
	_, stdout, _ := runWeir("store", "dump", dir)
	for _, want := range []string{
		`"newest_us":2000000,"blocked_until_us":62000000}`,
		`"reservation":{"units":5,"expires_at_us":2000000}}}`,
		`"reservation":{"units":2,"expires_at_us":2000000,"settled":0}}}`,
		`"entries":[{"at_us":2000000,"units":2}],"ahead":[{"at_us":62000000,"units":1}]}`,
		`"granted":1,"start_us":62000000}}`,
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("got  %s\nwant %s", stdout, want)
		}
	}
	if _, stdout, _ = runWeir("store", "check", "--json", dir); !strings.Contains(stdout, `"blocks":1,"operations":3,`) {
		t.Errorf("got  %s\nwant one block and three operations", stdout)
	}
}

// TestCheckNamesLostChanges: the end of a segment, with more than a thousand changes, is
// damaged. weir store check and a start both state the instant since which changes are lost.
func TestCheckNamesLostChanges(t *testing.T) {
	dir := t.TempDir()
	e, err := weirdisk.Open(dir, weirdisk.SyncEvery(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	l, err := weir.New(weir.Policy{Name: "p", Limits: []weir.Limit{weir.PerDay(1_000_000, "user")}}, weir.WithEngine(e))
	if err != nil {
		t.Fatal(err)
	}
	segment := filepath.Join(dir, "0000000000000001.weirlog")
	const kept, lost = 100, 1766
	var last weir.Decision
	size := 0
	for i := range kept + lost {
		d, err := l.Allow(t.Context(), weir.K("ann"))
		if err != nil {
			t.Fatal(err)
		}
		if i == kept-1 {
			text, err := os.ReadFile(segment)
			if err != nil {
				t.Fatal(err)
			}
			last, size = d, len(bytes.TrimRight(text, "\x00"))
		}
	}
	copied := t.TempDir()
	must.Do(t, os.CopyFS(copied, os.DirFS(dir))) // the state that a SIGKILL leaves
	must.Do(t, e.Close())
	segment = filepath.Join(copied, "0000000000000001.weirlog")
	text, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	whole := bytes.TrimRight(text, "\x00")
	at := last.At.UTC().Format(time.RFC3339Nano)
	hole := slices.Clone(whole)
	clear(hole[size : size+20]) // a page that was not written, before frames that were
	for name, c := range map[string]struct {
		data  []byte
		words []string
	}{
		"2 bytes left":     {whole[:size+2], []string{fmt.Sprintf("torn end at offset %d", size), "all changes after " + at + " are lost; of them 2 bytes are left; those since"}},
		"frames behind it": {hole, []string{"all changes after " + at + " are lost; of them ", fmt.Sprintf(" bytes are left, with %d changes behind a part that is missing", lost-1)}},
	} {
		must.Do(t, os.WriteFile(segment, c.data, 0o600))
		args := []string{"store", "check", copied}
		code, stdout, stderr := runWeir(args...)
		t.Log(name)
		wantWords(t, args, code, stdout+stderr, exitOK, append(c.words, "the last change is of "+last.At.Local().Format("2006-01-02 15:04:05.000")))
	}
	again, err := weirdisk.Open(copied)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if cut := again.Recovery(); !cut.After.Equal(last.At) {
		t.Errorf("got %+v, want a cut after %v", cut, last.At)
	}
}
