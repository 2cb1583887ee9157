package replay

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/internal/testkit/memstats"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/race"
	"github.com/weirlimit/weir/policy"
)

// logRun replays a log by the text of a policy file, and against that of another one.
func logRun(t testing.TB, policies, log string, o LogOptions, against ...string) (LogSummary, error) {
	t.Helper()
	parse := func(text string) *policy.File {
		file, err := policy.Parse("weir.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	r, err := NewLogRunner(parse(policies), weir.NewMemory(), o)
	if err != nil {
		return LogSummary{}, err
	}
	for _, old := range against {
		must.Do(t, r.Against("old.yaml", parse(old), weir.NewMemory()))
	}
	return r.Run(opened(t, strings.NewReader(log)))
}

// opened opens a log.
func opened(t testing.TB, in io.Reader) *accesslog.Reader {
	t.Helper()
	reader, err := accesslog.Open([]string{"-"}, accesslog.Options{Stdin: in, Reorder: accesslog.DefaultReorder})
	if err != nil {
		t.Fatal(err)
	}
	return reader
}

// keysOf and whereOf read keys and conditions as on the command line.
func keysOf(t *testing.T, texts ...string) []LogKey    { return parsed(t, ParseLogKey, texts) }
func whereOf(t *testing.T, texts ...string) []LogWhere { return parsed(t, ParseLogWhere, texts) }

func parsed[T any](t *testing.T, parse func(string) (T, error), texts []string) (all []T) {
	for _, text := range texts {
		got, err := parse(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, got)
	}
	return all
}

// logLine is a combined line at a second.
func logLine(at int64, addr, path string, size int) string {
	return fmt.Sprintf("%s - - [%s] \"GET %s HTTP/1.1\" 200 %d \"-\" \"-\"\n", addr,
		time.Unix(at, 0).UTC().Format("02/Jan/2006:15:04:05 -0700"), path, size)
}

const perIP = "version: 1\npolicies:\n  search:\n    limit: %s\n"

var one = LogUnits{N: 1}

func TestKeysUnitsAndConditionsOfALog(t *testing.T) {
	log := logLine(1772697600, "2001:db8::1", "/api/a", 100) + logLine(1772697601, "2001:db8::2", "/api/b?x", 100) +
		logLine(1772697602, "2001:db8:0:1::1", "/static/x", 300) + logLine(1772697603, "192.0.2.1", "/", 50)
	for _, c := range []struct {
		name, limit string
		o           LogOptions
		want        string // requests, denied, keys, filtered
	}{
		{"IPv6 counts by /64", "1 per minute per ip", LogOptions{Keys: keysOf(t, "ip=remote_addr"), Units: one}, "4 1 3 0"},
		{"bytes", "150 bytes per minute per ip", LogOptions{Keys: keysOf(t, "ip=remote_addr"), Units: LogUnits{Bytes: true}}, "4 2 3 0"},
		{"a condition", "1 per minute", LogOptions{Where: whereOf(t, "path=/api/*", "remote_addr=2001:*"), Units: one}, "2 1 1 2"},
		{"the path", "1 per minute per path", LogOptions{Keys: keysOf(t, "path=path"), Units: one}, "4 0 4 0"},
		{"prefixes", "1 per minute per route", LogOptions{Keys: keysOf(t, "route=path:/api/", "route=path:/static/"), Units: one}, "3 1 2 1"},
		{"the longest prefix", "1 per minute per route", LogOptions{Keys: keysOf(t, "route=path:/", "route=path:/api/"), Units: one}, "4 2 2 0"},
	} {
		s, err := logRun(t, fmt.Sprintf(perIP, c.limit), log, c.o)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := fmt.Sprint(s.Requests, s.Denied, s.Policies[0].Keys, s.Filtered); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

func TestPoliciesOfALogDecideOnTheirOwn(t *testing.T) {
	file := "version: 1\npolicies:\n  one:\n    limit: 1 per minute per ip\n  two:\n    limit: 2 per minute per ip\n    shadow: true\n  other:\n    limit: 1 per day per user\n"
	log := strings.Repeat(logLine(1772697600, "192.0.2.1", "/", 1), 4)
	s, err := logRun(t, file, log, LogOptions{Keys: keysOf(t, "ip=remote_addr"), Units: one})
	if err != nil || len(s.Policies) != 2 || s.Policies[0].Denied != 3 || s.Policies[1].Denied != 2 || s.Denied != 3 || s.Allowed != 1 {
		t.Errorf("got %+v, %v", s, err)
	}
	s, err = logRun(t, file, log, LogOptions{Policy: "two", Keys: keysOf(t, "ip=remote_addr"), Units: one})
	if err != nil || len(s.Policies) != 1 || s.Denied != 2 || !s.Policies[0].Shadow {
		t.Errorf("got %+v, %v", s, err)
	}
}

// TestAgainstAnotherFile compares the changes with two replays of their own. There are fewer
// keys than a summary has.
func TestAgainstAnotherFile(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		limit := func() string { return fmt.Sprintf("%d per %ds", 1+r.IntN(5), 5+r.IntN(30)) }
		files := [2]string{
			"version: 1\npolicies:\n  both: {limit: " + limit() + " per ip per path}\n  new: {limit: " + limit() + " per ip}\n  other: {limit: " + limit() + " per ip}\n",
			"version: 1\npolicies:\n  both: {limits: {a: " + limit() + " per path, b: " + limit() + " per ip}}\n  old: {limit: " + limit() + " per ip}\n  other: {limit: " + limit() + " per path}\n",
		}
		var log strings.Builder
		for i := range int64(800) {
			log.WriteString(logLine(1772697600+i/3, fmt.Sprintf("192.0.2.%d", r.IntN(9)), fmt.Sprintf("/%d", r.IntN(2)), 1))
		}
		o := LogOptions{Keys: keysOf(t, "ip=remote_addr", "path=path"), Units: one}
		name := func(key Key) string {
			b, _ := key.MarshalJSON() // in one order
			return string(b)
		}
		denied := [2]map[string]bool{{}, {}}
		for i, file := range files {
			s, err := logRun(t, file, log.String(), LogOptions{Policy: "both", Keys: o.Keys, Units: one})
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range s.Policies[0].Top {
				denied[i][name(k.Key)] = true
			}
		}
		s, err := logRun(t, files[0], log.String(), o, files[1])
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, c := range s.Against.Policies {
			names = append(names, fmt.Sprint(c.Policy, " ", c.Old != nil, " ", c.New != nil, " ", c.KeysNewlyDenied != nil))
		}
		if got, want := strings.Join(names, ", "), "both true true true, new false true false, other true true false, old true false false"; got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		c := s.Against.Policies[0]
		for i, changes := range [][]LogKeyChange{c.NewlyDenied, c.NoLongerDenied} {
			got, want := map[string]bool{}, maps.Clone(denied[i])
			maps.DeleteFunc(want, func(k string, _ bool) bool { return denied[1-i][k] })
			for _, k := range changes {
				got[name(k.Key)] = k.Denied > 0
			}
			if n := *[]*int64{c.KeysNewlyDenied, c.KeysNoLongerDenied}[i]; n != int64(len(want)) || !maps.Equal(got, want) {
				t.Errorf("seed %d, file %d: got %d keys, %v; want %v", seed, i, n, got, want)
			}
		}
	}
}

// TestAPlanComesFromTheLog, whether or not the policy counts by it.
func TestAPlanComesFromTheLog(t *testing.T) {
	const file = "version: 1\npolicies:\n  api:\n    limit: 1 per minute per ip%[1]s\n    plan-by: plan\n    plans:\n      pro: { limit: 3 per minute per ip%[1]s }\n"
	line := func(ip, plan string) string {
		return fmt.Sprintf(`{"ts":1772697600,"remote_addr":%q,"http_x_plan":%q}`+"\n", ip, plan)
	}
	log := strings.Repeat(line("192.0.2.1", "pro"), 5) + strings.Repeat(line("192.0.2.2", "-"), 5)
	options := LogOptions{Keys: keysOf(t, "ip=remote_addr", "plan=header:X-Plan"), Units: one}
	s, err := logRun(t, fmt.Sprintf(file, ""), log, options)
	if err != nil || s.Denied != 2+4 || s.Policies[0].Keys != 2 {
		t.Errorf("got %+v, %v", s, err)
	}
	s, err = logRun(t, fmt.Sprintf(file, " per plan"), strings.ReplaceAll(log, `"-"`, `"free"`), options)
	if err != nil || s.Denied != 2+4 || s.Policies[0].Keys != 2 {
		t.Errorf("plan is a dimension: got %+v, %v", s, err)
	}
}

func TestWrongLogOptions(t *testing.T) {
	log := logLine(1772697600, "192.0.2.1", "/", 1) + "cut off\n"
	for _, c := range []struct {
		o    LogOptions
		want string
	}{
		{LogOptions{}, "policy search counts by ip; add --key ip=FIELD, such as --key ip=remote_addr"},
		{LogOptions{Policy: "none"}, `no policy "none"`},
		{LogOptions{Keys: keysOf(t, "ip=remote_addr", "user=user")}, `no policy counts by "user"`},
		{LogOptions{Keys: keysOf(t, "ip=remote_addr", "ip=user")}, "given twice"},
		{LogOptions{Keys: keysOf(t, "ip=header:X-Forwarded-For")}, "no line has the field header:x-forwarded-for of the key ip; the lines have remote_addr, method"},
	} {
		if _, err := logRun(t, fmt.Sprintf(perIP, "1 per day per ip"), log, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.o, err, c.want)
		}
	}
	if s, err := logRun(t, fmt.Sprintf(perIP, "1 per day per ip"), log, LogOptions{Keys: keysOf(t, "ip=remote_addr"), Where: whereOf(t, "path=/x", "user=a")}); err != nil || s.Filtered != 1 {
		t.Errorf("a second condition that is never read: got %+v, %v", s, err)
	}
	for text, parse := range map[string]func(string) error{
		"ip = =x ip= ip=header: route=path:api": func(text string) error { _, err := ParseLogKey(text); return err },
		"-1 x 1.5 2251799813685248":             func(text string) error { _, err := ParseLogUnits(text); return err },
		"path":                                  func(text string) error { _, err := ParseLogWhere(text); return err },
	} {
		for _, wrong := range append(strings.Fields(text), "") {
			if parse(wrong) == nil {
				t.Errorf("%q of %q: no error", wrong, text)
			}
		}
	}
	if _, err := ParseLogWhere("path=/\xff*"); err == nil || !strings.Contains(err.Error(), "not UTF-8") {
		t.Errorf("a pattern that is not UTF-8: %v", err)
	}
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		glob, text string
		want       bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"a*", "a", true}, {"a*c", "abbc", true}, {"a*c", "abcb", false},
		{"*b*", "abc", true}, {"a?c", "abc", true}, {"a?c", "ac", false}, {"/search*", "/search/a/b", true}, {"**a", "bba", true}, {"*a*a*a", "aa", false},
	} {
		logWhere, err := ParseLogWhere("path=" + c.glob)
		if err != nil {
			t.Fatal(err)
		}
		if got := logWhere.glob.MatchString(c.text); got != c.want {
			t.Errorf("%q, %q: got %v", c.glob, c.text, got)
		}
	}
}

// keyStream is a log whose lines have all different clients.
type keyStream struct {
	lines int
	rest  []byte
}

func (s *keyStream) Read(b []byte) (int, error) {
	for len(s.rest) < len(b) {
		s.rest = fmt.Appendf(s.rest, "10.%d.%d.%d - - [05/Mar/2026:08:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n", s.lines>>16, s.lines>>8&255, s.lines&255)
		s.lines++
	}
	n := copy(b, s.rest)
	s.rest = append(s.rest[:0], s.rest[n:]...)
	return n, nil
}

// TestTooManyKeysStopTheReplay reads an endless log of new keys. The runner has seen all but
// 200,000 of the keys that fit, because two million take long.
func TestTooManyKeysStopTheReplay(t *testing.T) {
	left := race.Fewer(200_000)
	f, err := policy.Parse("weir.yaml", fmt.Appendf(nil, perIP, "5 per minute per ip"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewLogRunner(f, weir.NewMemory(), LogOptions{Keys: keysOf(t, "ip=remote_addr"), Units: one})
	if err != nil {
		t.Fatal(err)
	}
	r.keys = MaxLogKeys - left
	s, err := r.Run(opened(t, new(keyStream)))
	var wrong *LogError
	if !errors.As(err, &wrong) || !strings.HasPrefix(err.Error(), "the logs have more than 2000000 keys or 100 MiB of keys, too many for the summary; ") || s.Requests != int64(left) {
		t.Errorf("got %d requests, %v", s.Requests, err)
	}
	live := memstats.Live()
	if live > 400<<20*int64(left)/MaxLogKeys {
		t.Errorf("%d MiB are live", live>>20)
	}
	t.Logf("%d MiB are live", live>>20)
	runtime.KeepAlive(r)
}

// TestLongKeysStopTheReplay has keys of 60 KiB.
func TestLongKeysStopTheReplay(t *testing.T) {
	var log strings.Builder
	for i := range 2000 {
		log.WriteString(logLine(1772697600, "192.0.2.1", fmt.Sprintf("/%d%s", i, strings.Repeat("x", 60<<10)), 1))
	}
	if _, err := logRun(t, fmt.Sprintf(perIP, "5 per minute per path"), log.String(), LogOptions{Keys: keysOf(t, "path=path"), Units: one}); err == nil || !strings.Contains(err.Error(), "100 MiB of keys") {
		t.Errorf("got %v", err)
	}
}

// TestLogKeysCountRequestsWithoutAKey reads one line of each outcome.
func TestLogKeysCountRequestsWithoutAKey(t *testing.T) {
	log := logLine(1772697600, "192.0.2.1", "/api/a", 7) + logLine(1772697601, "-", "/api/a", 7) +
		logLine(1772697602, "2001:db8::1", "/static/x", 7) + logLine(1772697603, strings.Repeat("a", 1025), "/api/", 7)
	in := opened(t, strings.NewReader(log))
	k, err := NewLogKeys(LogOptions{Keys: keysOf(t, "route=path:/api/", "ip=remote_addr"), Units: LogUnits{Bytes: true}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	must.Do(t, k.Each(in, func(key []byte, _ *accesslog.Entry, n int64) error {
		got = append(got, fmt.Sprint(k.Named(string(key)), n))
		return nil
	}))
	c, err := k.Counts(in)
	if fmt.Sprint(got, k.Dimensions(), c.NoKey, c.Rejected, c.Filtered, err) != "[[{route /api/} {ip 192.0.2.1}] 7] [route ip] 1 1 1 <nil>" {
		t.Errorf("got %v, %v, %+v, %v", got, k.Dimensions(), c, err)
	}
}
