package weirredis_test

import (
	"fmt"
	"os"
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

// TestLayoutIsReadable stores the keys that an earlier program wrote. The answers that they lead to
// are those of a memory to which the same calls were made. All of their instants are of callers, so
// nothing in them expires.
func TestLayoutIsReadable(t *testing.T) {
	const file = "testdata/weir3.txt"
	s := redistest.Start(t)
	l := newLayout(t, newEngine(t, s.Conn(t), weirredis.DisableBatching(), weirredis.DenialCacheTTL(0)))
	if _, err := os.Stat(file); *rewrite && err != nil { // the file stays, like the number in the keys
		l.fill()
		must.Do(t, os.WriteFile(file, []byte(commandsOf(t, s)), 0o644))
		s.Must(t, "FLUSHALL")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var command []string
		for _, word := range strings.Fields(line) {
			word, err := strconv.Unquote(word)
			if err != nil {
				t.Fatal(err)
			}
			command = append(command, word)
		}
		s.Must(t, command...)
	}
	m := newLayout(t, weir.NewMemory())
	m.fill()
	want := m.answers()
	for i, got := range l.answers() {
		assert.Equal(t, got, want[i], "answer")
	}
}

// commandsOf returns a line for each key of a server: the command that stores it.
func commandsOf(t *testing.T, s *redistest.Server) string {
	t.Helper()
	var b strings.Builder
	for _, key := range slices.Sorted(slices.Values(s.List(t, "KEYS", "*"))) {
		command := []string{"SET", key}
		if s.Must(t, "TYPE", key) == "string" {
			command = append(command, s.Must(t, "GET", key))
		} else {
			command[0] = "HSET"
			for _, field := range slices.Sorted(slices.Values(s.List(t, "HKEYS", key))) {
				command = append(command, field, s.Must(t, "HGET", key, field))
			}
		}
		for i, word := range command {
			command[i] = quotedWord(word)
		}
		b.WriteString(strings.Join(command, " ") + "\n")
	}
	return b.String()
}

// quotedWord returns a text in quotes, without spaces.
func quotedWord(text string) string {
	return strings.ReplaceAll(strconv.QuoteToASCII(text), " ", `\x20`)
}

const day = 24 * int64(time.Hour/time.Microsecond)

// layout is an engine with a policy of each kind.
type layout struct {
	e        engine.Engine
	policies []*engine.Compiled
}

func newLayout(t *testing.T, e engine.Engine) *layout {
	t.Helper()
	l := &layout{e: e}
	add := func(name string, mode weir.Mode, limits ...weir.Limit) {
		l.policies = append(l.policies, limiter(t, e, name, mode, limits...).Compiled())
	}
	cells, block := perUser(90, time.Hour), perUser(3, time.Hour)
	cells.Cells, block.Block = 6, 24*time.Hour
	add("rolling", weir.AllOrNothing, perUser(900, time.Hour), weir.Limit{Name: "all", Max: 9000, Window: time.Minute})
	add("counted", weir.CountDenied, perUser(5, time.Hour))
	add("cells", weir.AllOrNothing, cells)
	add("fixed", weir.AllOrNothing,
		weir.Limit{Name: "hour", Kind: weir.KindFixed, Max: 900, Window: time.Hour},
		weir.Limit{Name: "first", Kind: weir.KindFixedFromFirst, Max: 900, Window: time.Hour, By: []string{"user"}},
		weir.Limit{Name: "month", Kind: weir.KindFixed, Max: 900, Period: weir.Month, Zone: "Europe/Berlin", By: []string{"user"}})
	add("bucket", weir.AllOrNothing, bucket(7, time.Hour, 400))
	add("holds", weir.AllOrNothing, weir.AtOnce(400, 24*time.Hour, "user").Named("held"), perUser(900, time.Hour))
	add("blocks", weir.AllOrNothing, block)
	return l
}

// do makes a call for user u at a time after nine, and returns its answer.
func (l *layout) do(c engine.Call, rules *engine.Compiled, after time.Duration) string {
	c.Rules, c.Key = rules, weir.K("u")
	c.At, c.Given = nine.Add(after).UnixMicro(), true
	if rules.Name == "counted" || rules.Name == "holds" {
		c.MaxWait = 0 // a limiter rejects such a wait (R18)
	}
	if c.Op <= engine.Record {
		c.States = make([]engine.State, len(rules.Limits))
	}
	r, err := do(l.e, c)
	return fmt.Sprintf("%+v %+v, failed: %v", r, c.States, err != nil)
}

// fill stores histories in each form, operations, reservations, blocks and appointments.
func (l *layout) fill() {
	for _, rules := range l.policies {
		for i := range 120 { // more than a header holds
			l.do(engine.Call{N: int64(1 + i%3)}, rules, time.Duration(i)*time.Second)
		}
		last := 2 * time.Minute
		for _, c := range []engine.Call{
			{N: 2, ID: "once"},
			{Op: engine.Record, N: 1, ID: "record"},
			{Op: engine.Refund, N: 1, From: engine.Oldest},
			{N: 5, ID: "open", TTL: time.Hour.Microseconds()},
			{N: 5, ID: "settled", TTL: time.Hour.Microseconds()},
			{Op: engine.Settle, N: 3, ID: "settled"},
			{N: 900, MaxWait: day, ID: "waits"},
			{N: 7, MaxWait: day},
		} {
			last += time.Second
			l.do(c, rules, last)
		}
	}
}

// answers returns the answers to calls that read all that fill has stored.
func (l *layout) answers() (all []string) {
	for _, rules := range l.policies {
		for _, c := range []struct {
			about string
			call  engine.Call
			after time.Duration
		}{
			{"peek", engine.Call{Op: engine.Peek, N: 1}, 3 * time.Minute},
			{"peek of many", engine.Call{Op: engine.Peek, N: 400}, 3 * time.Minute},
			{"once again", engine.Call{N: 2, ID: "once"}, 3 * time.Minute},
			{"record again", engine.Call{Op: engine.Record, N: 1, ID: "record"}, 3 * time.Minute},
			{"wait again", engine.Call{N: 900, MaxWait: day, ID: "waits"}, 3 * time.Minute},
			{"settle", engine.Call{Op: engine.Settle, N: 1, ID: "open"}, 3 * time.Minute},
			{"settled again", engine.Call{Op: engine.Settle, N: 3, ID: "settled"}, 3 * time.Minute},
			{"attempt", engine.Call{N: 1}, 3 * time.Minute},
			{"peek in the middle of the window", engine.Call{Op: engine.Peek, N: 1}, time.Hour + time.Minute},
			{"attempt behind the window", engine.Call{N: 1}, time.Hour + 90*time.Second},
			{"peek behind all", engine.Call{Op: engine.Peek, N: 1}, 40 * 24 * time.Hour},
		} {
			all = append(all, fmt.Sprintf("%s, %s: %s", rules.Name, c.about, l.do(c.call, rules, c.after)))
		}
	}
	return all
}
