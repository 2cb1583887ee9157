package weirredis_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

var rewrite = flag.Bool("rewrite", false, "write lua/joined instead of comparing with it")

// TestJoinedScripts: the files of lua/joined are the scripts that decide, so an operator can read
// what a server runs, and compare sha1sum with SCRIPT EXISTS.
func TestJoinedScripts(t *testing.T) {
	for _, s := range weirredis.Scripts() {
		if slices.Contains([]string{"reset", "check", "inspect", "documents"}, s.Name) {
			continue
		}
		file := filepath.Join("lua", "joined", s.Name+".lua")
		if *rewrite {
			must.Do(t, os.MkdirAll(filepath.Dir(file), 0o755))
			must.Do(t, os.WriteFile(file, []byte(s.Text), 0o644))
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != s.Text {
			const next = "run go test ./weirredis -run TestJoinedScripts -rewrite"
			t.Errorf("%s is not the joined script (%v); %s", file, err, next)
		}
	}
}

// TestNothingElseRuns makes calls of all kinds. Behind them the server has the scripts of
// lua/joined, and reset.lua, check.lua, inspect.lua and documents.lua, and no other.
func TestNothingElseRuns(t *testing.T) {
	s := redistest.Start(t)
	e := newEngine(t, s.Conn(t))
	if _, err := e.Check(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Documents().Read(ctx, "notes", 0); err != nil {
		t.Fatal(err)
	}
	for i, limits := range [][]weir.Limit{
		{perUser(5, time.Hour)},
		{bucket(5, time.Hour, 9)},
		{perUser(5, time.Hour), {Name: "day", Max: 9, Kind: weir.KindFixed, Period: weir.Day}},
		{{Name: "hour", Max: 9, Window: time.Hour}, bucket(5, time.Hour, 9)},
	} {
		l := limiter(t, e, fmt.Sprint("scripts", i), weir.AllOrNothing, limits...)
		for _, c := range []engine.Call{
			{Op: engine.Attempt}, {Op: engine.Attempt, ID: "order"}, {Op: engine.Peek}, {Op: engine.Record},
			{Op: engine.Refund, From: engine.Oldest}, {Op: engine.Reset}, {Op: engine.Probe},
			{Op: engine.Attempt, ID: "r", TTL: time.Hour.Microseconds()}, {Op: engine.Extend, ID: "r", From: 1},
			{Op: engine.Settle, ID: "r"}, {Op: engine.Attempt, MaxWait: time.Hour.Microseconds()},
			{Op: engine.Block, From: time.Hour.Microseconds()},
		} {
			mustDo(t, e, callOf(l, "u", c))
		}
	}
	hour := limiter(t, e, "counted", weir.AllOrNothing, perUser(5, time.Hour))
	if _, err := hour.Count(ctx, weir.K("u"), "user", time.Minute); err != nil {
		t.Fatal(err)
	}

	mustDo(t, e, callOf(hour, "u", engine.Call{Op: engine.Peek, Histories: new([]engine.History)}))

	known := []string{"SCRIPT", "EXISTS"}
	for _, script := range weirredis.Scripts() {
		known = append(known, script.SHA1)
	}
	for i, exists := range s.List(t, known...) {
		assert.Equal(t, exists, "1", "the server has the script %s", weirredis.Scripts()[i].Name)
	}
	cached := regexp.MustCompile(`number_of_cached_scripts:(\d+)`).FindStringSubmatch(s.Must(t, "INFO", "memory"))
	assert.Equal(t, cached[1], strconv.Itoa(len(known)-2), "scripts of the server")
}

// TestKeyOfThePage: docs/redis-script.md names the key of a history as it is on a server.
func TestKeyOfThePage(t *testing.T) {
	s := redistest.Start(t)
	l := limiter(t, newEngine(t, s.Conn(t)), "push", weir.AllOrNothing, perUser(100, time.Hour))
	mustAllowN(t, l, weir.K("42"), 1)
	page, err := os.ReadFile("../docs/redis-script.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range s.List(t, "KEYS", "*") {
		if !strings.Contains(string(page), "    "+key+"\n") {
			t.Errorf("docs/redis-script.md does not have %s", key)
		}
	}
}
