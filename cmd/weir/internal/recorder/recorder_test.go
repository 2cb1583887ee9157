package recorder

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/policy"
)

const policies = `version: 1
policies:
  search:
    limits:
      ip: 5 per minute per ip
  api:
    limits:
      tenant: 100 per minute per tenant
      user: 10 per minute per tenant per user
    plan-by: plan
    plans:
      gold:
        user: 20 per minute
    overrides:
      - for: {tenant: acme}
        why: a customer
        until: forever
        limits:
          user: 30 per minute
  all:
    limits:
      all: 7 per minute
  apart:
    limits:
      user: 5 per minute per user
      ip: 5 per minute per ip
  site:
    limit: 1 per minute per ip
    keys: {ip: address}
    overrides:
      - {for: {ip: 10.0.0.0/8}, limit: 2 per minute, until: forever, why: own network}
      - {for: {ip: 10.1.0.0/16}, limit: 3 per minute, until: forever, why: a longer prefix}
      - {for: {ip: 2001:db8::1}, limit: 4 per minute, until: forever, why: one client}
`

// rule returns a rule of the policies.
func rule(t testing.TB, name string) *enforce.Rule {
	t.Helper()
	f, err := policy.Parse("policies", []byte(policies))
	if err != nil {
		t.Fatal(err)
	}
	got, err := enforce.NewRule(f.Definition(name), weir.NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// open opens a recorder of a new directory, all keys and one file unless c differs.
func open(t testing.TB, c Config) (*Recorder, string) {
	t.Helper()
	if c.Path == "" {
		c.Path = filepath.Join(t.TempDir(), "trace")
	}
	c.Files, c.Sample = max(c.Files, 1), max(c.Sample, 1)
	if c.FileBytes == 0 {
		c.FileBytes = 1 << 20
	}
	r, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r, c.Path
}

// lines returns the lines of a file, of which every one must end.
func lines(t testing.TB, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasSuffix(b, []byte("\n")) {
		t.Fatalf("%s ends within a line: %q", path, b)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// record returns the lines that calls record by the rule of a policy.
func record(t testing.TB, c Config, policy string, calls func(p *Policy)) []string {
	t.Helper()
	r, path := open(t, c)
	calls(r.Policy(rule(t, policy)))
	r.Close()
	return lines(t, path)
}

func attempt(n int64, values ...string) *enforce.Request {
	return &enforce.Request{Target: enforce.Target{Key: weir.K(values...)}, N: n}
}

// grantAt returns a decision at an instant that grants all units.
func grantAt(us int64) *weir.Decision {
	return &weir.Decision{Allowed: true, Granted: weir.MaxUnits, At: time.UnixMicro(us)}
}

// grantOf returns the decision of a grant of n units.
func grantOf(n, us int64) *weir.Decision {
	return &weir.Decision{Allowed: true, Granted: n, At: time.UnixMicro(us)}
}

// TestReplayOfHashedAddressesAgrees: a trace shows the network of an override in place of an
// address, so that a replay finds the same override.
func TestReplayOfHashedAddressesAgrees(t *testing.T) {
	site := rule(t, "site")
	var live []bool
	text := record(t, Config{}, "site", func(p *Policy) {
		for i, ip := range []string{"192.0.2.7", "10.0.0.1", "::ffff:10.1.0.1", "10.0.0.2", "10.1.0.1", "2001:DB8::5", "2001:db9::1", "10.0.0.0"} {
			target, err := site.Target([]enforce.Pair{{Name: "ip", Value: ip}})
			if err != nil {
				t.Fatal(err)
			}
			for n := range 5 {
				request := &enforce.Request{Target: target, N: 1, At: time.UnixMicro(int64(1000 + 10*i + n))}
				o, err := site.Decide(context.Background(), request)
				if err != nil {
					t.Fatal(err)
				}
				p.Decided(request, &o.Decision)
				live = append(live, o.Allowed)
			}
		}
	})
	for _, shown := range []string{"192.0", "10.0.0.1", "10.1.0.1", "2001:db9"} {
		if strings.Contains(strings.Join(text, "\n"), shown) {
			t.Errorf("the trace shows %s", shown)
		}
	}
	f, err := policy.Parse("policies", []byte(policies))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	runner, err := replay.New(f, weir.NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runner.Run(strings.NewReader(strings.Join(text, "\n")+"\n"), &out); err != nil {
		t.Fatal(err)
	}
	answers := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(answers) != len(live) {
		t.Fatalf("%d answers, want %d", len(answers), len(live))
	}
	for i, line := range answers {
		if got := strings.Contains(line, `"allowed":true`); got != live[i] {
			t.Errorf("%s: replayed %s, live %v", text[i+1], line, live[i])
		}
	}

	out.Reset()
	reset := strings.TrimSuffix(text[1], "}") + `,"op":"reset"}`
	if _, err := runner.Run(strings.NewReader(reset), &out); err != nil {
		t.Fatal(err)
	}
	if answer := out.String(); !strings.Contains(answer, `"remaining"`) || strings.Contains(answer, `"remaining":0`) {
		t.Errorf("%s: replayed %s, want the peek after it", reset, answer)
	}
}

// TestWaitsReplay: a recorded wait is replayed with the same start, also that of a reservation.
func TestWaitsReplay(t *testing.T) {
	search := rule(t, "search")
	var live []string
	text := record(t, Config{}, "search", func(p *Policy) {
		for i := range 12 {
			q := attempt(3, "a")
			q.At, q.MaxWait = time.UnixMicro(int64(1000+i)), 150*time.Second
			q.Reserve, q.TTL = i%2 == 1, time.Second
			o, err := search.Decide(context.Background(), q)
			if err != nil {
				t.Fatal(err)
			}
			if o.ReservedID != "" {
				p.Opened(q, &o.Decision, o.ReservedID, q.TTL)
			} else {
				p.Decided(q, &o.Decision)
			}
			live = append(live, fmt.Sprintf(`"allowed":%t,`, o.Allowed), fmt.Sprintf(`"start_after_us":%d,`, o.StartAfter.Microseconds()))
		}
	})
	f, err := policy.Parse("policies", []byte(policies))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	runner, err := replay.New(f, weir.NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runner.Run(strings.NewReader(strings.Join(text, "\n")+"\n"), &out); err != nil {
		t.Fatal(err)
	}
	answers := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(answers) != 12 || !strings.Contains(answers[11], `"allowed":false`) || !strings.Contains(answers[2], `"start_after_us":119999998,`) {
		t.Errorf("got %d answers, want 12 with waits and a denial: %s", len(answers), out.String())
	}
	for i, line := range answers {
		if !strings.Contains(line, live[2*i]) || !strings.Contains(line, live[2*i+1]) {
			t.Errorf("line %d: got %s, want %s %s", i, line, live[2*i], live[2*i+1])
		}
	}
}

// TestCallsAreWrittenInOrder: the trace has the calls of two periods by their instants, of
// one instant grants before denials, and refunds and resets behind the last decision.
func TestCallsAreWrittenInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, path := open(t, Config{Plain: true})
		p := r.Policy(rule(t, "search"))
		p.Decided(attempt(7, "late\"\\\n"), &weir.Decision{At: time.UnixMicro(50)})
		p.Decided(attempt(1, "late"), grantAt(50))
		p.Decided(attempt(2, "b"), &weir.Decision{Allowed: true, Granted: 1, At: time.UnixMicro(30)})
		p.Decided(&enforce.Request{Target: attempt(0, "c").Target, Op: engine.Record, N: 3}, grantAt(20))
		sleepPeriods(1)
		p.Decided(attempt(1, "a"), grantAt(10))
		sleepPeriods(3)
		whole := attempt(1, "q\"\\\n\xff").Target
		p.Refunded(&whole, 30, 2, "x")
		p.Refunded(&whole, engine.Oldest, 2, "") // has no instant
		b := attempt(1, "b").Target
		p.Changed(&enforce.Request{Op: engine.Reset, Target: attempt(1, "b").Target}, time.Time{}, []string{"ip"})
		p.Changed(&enforce.Request{Op: engine.Block, Target: b, For: time.Minute}, time.UnixMicro(3500020), []string{"ip"})
		p.Opened(&enforce.Request{Target: b, N: 9}, grantOf(9, 3500030), "use", 5*time.Millisecond)
		p.Extended(&enforce.Request{Target: b, N: 2, ID: "use"}, grantOf(2, 3500040))
		waiting := func(seconds int) (*enforce.Request, *weir.Decision) {
			d := grantAt(3500060)
			d.StartAfter = time.Duration(seconds) * time.Second
			return &enforce.Request{Target: b, N: 1, MaxWait: d.StartAfter + time.Second}, d
		}
		for _, seconds := range []int{3, 0, 2} {
			p.Decided(waiting(seconds))
		}
		q, d := waiting(1)
		p.Opened(q, d, "use", time.Millisecond)
		p.Settled(&enforce.Request{Target: b, N: engine.AllUnits, ID: "use"}, grantOf(10, 3500050), 1)
		r.Close()
		got := lines(t, path)
		id := r.writer.hash("", []byte("use"))
		want := []string{
			`{"trace":1,"sample":1,"keys":"plain","dropped":0}`,
			`{"at_us":10,"policy":"search","key":{"ip":"a"}}`,
			`{"at_us":20,"policy":"search","key":{"ip":"c"},"n":3,"op":"record"}`,
			`{"at_us":30,"policy":"search","key":{"ip":"b"},"n":2}`,
			`{"at_us":50,"policy":"search","key":{"ip":"late"}}`,
			`{"at_us":50,"policy":"search","key":{"ip":"late\"\\\n"},"n":7}`,
			`{"at_us":3500010,"policy":"search","key":{"ip":"` + r.writer.hash("ip", []byte("q\"\\\n\xff")) + `"},"n":2,"op":"refund","granted_at_us":30,"id":"` + r.writer.hash("", []byte("x")) + `"}`,
			`{"at_us":3500010,"policy":"search","key":{"ip":"b"},"op":"reset"}`,
			`{"at_us":3500020,"policy":"search","key":{"ip":"b"},"op":"block","for_us":60000000}`,
			`{"at_us":3500030,"policy":"search","key":{"ip":"b"},"n":9,"id":"` + id + `","ttl_us":5000}`,
			`{"at_us":3500040,"policy":"search","key":{"ip":"b"},"n":2,"op":"extend","id":"` + id + `"}`,
			`{"at_us":3500050,"policy":"search","key":{"ip":"b"},"n":1,"op":"settle","id":"` + id + `"}`,
			`{"at_us":3500060,"policy":"search","key":{"ip":"b"},"max_wait_us":1000000}`,
			`{"at_us":3500060,"policy":"search","key":{"ip":"b"},"id":"` + id + `","ttl_us":1000,"max_wait_us":2000000}`,
			`{"at_us":3500060,"policy":"search","key":{"ip":"b"},"max_wait_us":3000000}`,
			`{"at_us":3500060,"policy":"search","key":{"ip":"b"},"max_wait_us":4000000}`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if r.Written.Load() != 15 || r.Dropped.Load() != 0 || r.Failed.Load() != 0 {
			t.Errorf("written %d, dropped %d, failed %d", r.Written.Load(), r.Dropped.Load(), r.Failed.Load())
		}
	})
}

// TestResetsNameTheirLimits: a reset that names limits has a line for each, without the values
// that its key lacks, and is in every sample whose keys it may concern.
func TestResetsNameTheirLimits(t *testing.T) {
	trace := record(t, Config{Plain: true}, "api", func(p *Policy) {
		both := []string{"tenant", "user"}
		p.Changed(&enforce.Request{Op: engine.Reset, Target: attempt(1, "t", "u").Target}, time.Time{}, both)
		p.Changed(&enforce.Request{Op: engine.Reset, Target: attempt(1, "t").Target, Limits: []string{"tenant"}}, time.Time{}, both[:1])
		p.Changed(&enforce.Request{Op: engine.Reset, Target: attempt(1, "t", "u").Target, Limits: []string{"tenant", "user"}}, time.Time{}, both)
	})
	want := []string{
		`"policy":"api","key":{"tenant":"t","user":"u"},"op":"reset"}`,
		`"policy":"api","key":{"tenant":"t"},"op":"reset","limit":"tenant"}`,
		`"policy":"api","key":{"tenant":"t","user":"u"},"op":"reset","limit":"tenant"}`,
		`"policy":"api","key":{"tenant":"t","user":"u"},"op":"reset","limit":"user"}`,
	}
	for i, line := range trace[1:] {
		if _, call, _ := strings.Cut(line, ","); call != want[i] {
			t.Errorf("line %d: got %s, want %s", i, call, want[i])
		}
	}
	sampled := record(t, Config{Sample: 1 << 30}, "apart", func(p *Policy) {
		p.Changed(&enforce.Request{Op: engine.Reset, Target: attempt(1, "u", "i").Target, Limits: []string{"ip"}}, time.Time{}, []string{"user", "ip"})
		p.Changed(&enforce.Request{Op: engine.Reset, Target: attempt(1, "i").Target, Limits: []string{"ip"}}, time.Time{}, []string{"ip"})
	})
	if len(trace) != 1+len(want) || len(sampled) != 2 {
		t.Errorf("%d and %d lines, want %d and 2", len(trace), len(sampled), 1+len(want))
	}
}

// TestValuesAreHashed: a trace has no value of a key, except those that the policy file
// names. Equal values have equal hashes under one secret, and others under another one.
func TestValuesAreHashed(t *testing.T) {
	trace := func(secret string) []string {
		return record(t, Config{Secret: secret}, "api", func(p *Policy) {
			gold := *attempt(1, "acme", "ann")
			gold.Plan = 1
			p.Decided(&gold, grantAt(1))
			p.Decided(attempt(1, "ann", "ann"), grantAt(2))
			p.Decided(attempt(1, "ann", "bob"), grantAt(3))
			p.Refunded(&gold.Target, 1, 1, "ann")
		})[1:]
	}
	one, same, other := trace("sixteen-letters-1"), trace("sixteen-letters-1"), trace("sixteen-letters-2")
	text := strings.Join(one, "\n")
	if strings.Contains(text, `"ann"`) || strings.Contains(text, `"bob"`) || !strings.Contains(text, `{"tenant":"acme",`) || !strings.Contains(text, `,"plan":"gold"}`) {
		t.Errorf("got\n%s\nwant the tenant acme, the plan gold and no other value", text)
	}
	key := func(line string) string { k, _, _ := strings.Cut(line[strings.Index(line, `"key"`):], "}"); return k }
	if !slices.EqualFunc(one[:3], same[:3], func(a, b string) bool { return key(a) == key(b) }) {
		t.Errorf("one secret has two hashes:\n%s\n%s", one, same)
	}
	if key(one[1]) == key(other[1]) || key(one[1]) == key(one[2]) {
		t.Errorf("equal hashes of\n%s\n%s\n%s", one[1], other[1], one[2])
	}
	var tenant, user string
	fmt.Sscanf(strings.NewReplacer(`"`, " ", ",", " ").Replace(key(one[1])), " key :{ tenant : %s  user : %s", &tenant, &user)
	if tenant == user || len(tenant) != 16 {
		t.Errorf("tenant %q, user %q: want two hashes of 16 characters", tenant, user)
	}
}

// TestSampleIsByKey: of each key all calls are recorded or none, for about the share of
// keys, and one secret chooses one sample. The dimensions that all limits share choose it.
func TestSampleIsByKey(t *testing.T) {
	sample := func(secret string) map[string]int {
		trace := record(t, Config{Plain: true, Sample: 4, Secret: secret}, "api", func(p *Policy) {
			for i := range 400 {
				for user := range 3 {
					p.Decided(attempt(1, fmt.Sprint("t", i), fmt.Sprint(user)), grantAt(int64(i)))
				}
			}
		})
		tenants := map[string]int{}
		for _, line := range trace[1:] {
			_, rest, _ := strings.Cut(line, `"tenant":"`)
			tenant, _, _ := strings.Cut(rest, `"`)
			tenants[tenant]++
		}
		return tenants
	}
	first, same, other := sample("a"), sample("a"), sample("b")
	if len(first) < 60 || len(first) > 140 {
		t.Errorf("%d of 400 tenants in a sample of 1/4", len(first))
	}
	equal := len(first) == len(other)
	for tenant, n := range first {
		if n != 3 || same[tenant] != 3 {
			t.Errorf("tenant %s has %d and %d calls, want all 3", tenant, n, same[tenant])
		}
		equal = equal && other[tenant] == 3
	}
	if equal || len(same) != len(first) {
		t.Errorf("%d tenants, %d by the same secret, %d by another one", len(first), len(same), len(other))
	}
	got := record(t, Config{Sample: 1 << 40}, "all", func(p *Policy) {
		for i := range 3 {
			p.Decided(attempt(1), grantAt(int64(i)))
		}
	})
	if len(got) != 4 {
		t.Errorf("a policy without keys has %d lines, want a header and all 3", len(got))
	}
}

// TestFilesHaveABound: files never exceed their size, the oldest is deleted, and each has a
// header and whole lines. A new run keeps the files of the run before.
func TestFilesHaveABound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace")
	at := int64(0)
	run := func(calls int) {
		r, _ := open(t, Config{Path: path, Files: 3})
		at = decideAll(t, r, at, at+int64(calls))
		r.Close()
		if r.Dropped.Load() != 0 || r.Written.Load() != int64(calls) {
			t.Errorf("%d dropped, %d of %d written", r.Dropped.Load(), r.Written.Load(), calls)
		}
	}
	run(70_000) // five files
	sizes := func() (all []int64) {
		for i := range 4 {
			info, err := os.Stat((&files{path: path}).name(i))
			if err != nil {
				break
			}
			all = append(all, info.Size())
			if info.Mode() != 0o600 || info.Size() > 1<<20 {
				t.Errorf("file %d has mode %v and %d bytes", i, info.Mode(), info.Size())
			}
		}
		return all
	}
	before := sizes()
	if len(before) != 3 {
		t.Fatalf("%d files, want 3", len(before))
	}
	next := at
	for i := range 3 {
		all := lines(t, (&files{path: path}).name(i))
		if !accesslog.IsTraceHeader([]byte(all[0])) || accesslog.IsTraceHeader([]byte(all[1])) {
			t.Errorf("file %d begins with %s, %s", i, all[0], all[1])
		}
		next -= int64(len(all) - 1)
		if want := fmt.Sprintf(`{"at_us":%d,`, next+1); !strings.HasPrefix(all[1], want) {
			t.Errorf("file %d begins with %s, want %s", i, all[1], want)
		}
	}
	run(1)
	run(0) // a file without calls takes no place
	run(0)
	after := sizes()
	if len(after) != 3 || after[2] != before[0] || len(lines(t, path+".1")) != 2 {
		t.Errorf("sizes %d became %d by a run of one call and two of none", before, after)
	}
}

// decideAll records a call at each instant from after one up to another, which it returns.
func decideAll(t *testing.T, r *Recorder, after, last int64) int64 {
	p := r.Policy(rule(t, "search"))
	for at := after + 1; at <= last; at++ {
		p.Decided(attempt(1, fmt.Sprint(at)), grantAt(at))
		if at%8192 == 0 {
			r.writer.waitTaken(t)
		}
	}
	return last
}

// waitTaken waits until the writer has taken the buffer.
func (w *writer) waitTaken(t *testing.T) {
	t.Helper()
	must.Await(t, "the buffer is taken", func() bool {
		select {
		case w.wake <- struct{}{}:
		default:
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.calls) == 0
	})
}

// TestOtherFilesAreSafe: a file that is no trace, or that another recorder writes, is an
// error that names it, and nothing is changed.
func TestOtherFilesAreSafe(t *testing.T) {
	dir := t.TempDir()
	used, _ := open(t, Config{Path: filepath.Join(dir, "used")})
	defer used.Close()
	must.Do(t, os.Mkdir(filepath.Join(dir, "dir"), 0o700))
	for _, name := range []string{"other", "trace.1"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("policies"), 0o600))
	}
	for _, c := range []struct{ name, file, want string }{
		{"other", "other", "is not a recorded trace"},
		{"trace", "trace.1", "is not a recorded trace"},
		{"dir", "dir", "is not a regular file"},
		{"missing/trace", "", "no such file or directory"},
		{"used", "used", "is written by another process"},
	} {
		before := names(dir)
		r, err := Open(Config{Path: filepath.Join(dir, c.name), Files: 2, FileBytes: 1 << 20, Sample: 1})
		if err == nil {
			r.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.file) {
			t.Errorf("%s: %v, want an error with %q", c.name, err, c.want)
		}
		if after := names(dir); !slices.Equal(after, before) {
			t.Errorf("%s: files %s became %s", c.name, before, after)
		}
	}
}

// TestRotationKeepsOtherFiles: a file that is no trace and appears at the name of an older one
// while calls are recorded is not overwritten. The calls behind it are counted as failed.
func TestRotationKeepsOtherFiles(t *testing.T) {
	r, path := open(t, Config{Files: 3})
	must.Do(t, os.WriteFile(path+".1", []byte("policies"), 0o600))
	decideAll(t, r, 0, 40_000) // more than one file
	r.Close()
	text, err := os.ReadFile(path + ".1")
	if err != nil {
		t.Fatal(err)
	}
	if got := string(text); got != "policies" || r.Failed.Load() == 0 {
		t.Errorf("the other file has %.40q, and %d calls failed; want policies, and some", got, r.Failed.Load())
	}
}

func names(dir string) (all []string) {
	fs.WalkDir(os.DirFS(dir), ".", func(path string, _ fs.DirEntry, _ error) error { all = append(all, path); return nil })
	return all
}

// TestDroppedCallsAreCounted: calls beyond the bound of the buffer are dropped, and the next
// header has the number.
func TestDroppedCallsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, path := open(t, Config{})
		p := r.Policy(rule(t, "search"))
		r.writer.files.close()
		os.Remove(path)
		os.Mkdir(path, 0o700) // the file cannot be opened
		for i := range maxCalls + 5 {
			p.Decided(attempt(1, "k"), grantAt(int64(i)))
		}
		sleepPeriods(3)
		if got := r.Dropped.Load() + r.Failed.Load(); got != maxCalls+5 || r.Written.Load() != 0 || r.Failed.Load() == 0 {
			t.Errorf("dropped %d, failed %d, written %d", r.Dropped.Load(), r.Failed.Load(), r.Written.Load())
		}
		os.Remove(path)
		p.Decided(attempt(1, strings.Repeat("k", maxBytes+1)), grantAt(1<<20))
		p.Decided(attempt(1, "k"), grantAt(1<<20))
		sleepPeriods(3)
		r.Close()
		p.Decided(attempt(1, "k"), grantAt(1<<20)) // after the end
		got := lines(t, path)
		dropped := int64(0)
		for _, line := range got[:len(got)-1] {
			traceHeader, err := accesslog.ParseTraceHeader([]byte(line))
			if err != nil {
				t.Fatal(err)
			}
			dropped += traceHeader.Dropped
		}
		if dropped != maxCalls+6 || !strings.HasPrefix(got[len(got)-1], `{"at_us":1048576,`) {
			t.Errorf("headers have %d dropped calls, want %d, in\n%s", dropped, maxCalls+6, got)
		}
	})
}

// TestWritesThatFailLeaveWholeLines: a write that is cut off by a full disk is taken back.
// Once there is room, recording goes on.
func TestWritesThatFailLeaveWholeLines(t *testing.T) {
	dir := needs.Tmpfs(t, "64k")
	path := filepath.Join(dir, "trace")
	r, _ := open(t, Config{Path: path})
	p := r.Policy(rule(t, "search"))
	calls := func() (n int64) {
		for _, line := range lines(t, path) {
			if !accesslog.IsTraceHeader([]byte(line)) {
				n++
			}
		}
		return n
	}
	for i := range 2000 { // 130 KB
		p.Decided(attempt(1, fmt.Sprint(i)), grantAt(int64(i)))
	}
	r.writer.waitTaken(t)
	must.Await(t, "writes fail", func() bool { return r.Failed.Load() > 0 })
	if n := calls(); n != r.Written.Load() || n+r.Failed.Load() != 2000 {
		t.Errorf("%d calls, %d written, %d failed", n, r.Written.Load(), r.Failed.Load())
	}
	before := r.Written.Load()
	os.Truncate(path, 0)
	p.Decided(attempt(1, "k"), grantAt(3000))
	r.Close()
	if n := calls(); n != r.Written.Load()-before || n == 0 {
		t.Errorf("%d calls after there was room, %d written", n, r.Written.Load()-before)
	}
}

// TestConcurrentCallsAreComplete: every call of every goroutine is in the trace once.
func TestConcurrentCallsAreComplete(t *testing.T) {
	trace := record(t, Config{Plain: true}, "search", func(p *Policy) {
		var all sync.WaitGroup
		for g := range 8 {
			all.Go(func() {
				for i := range 500 {
					p.Decided(attempt(1, fmt.Sprintf("%d-%d", g, i)), grantAt(int64(i)))
				}
			})
		}
		all.Wait()
	})
	seen := map[string]bool{}
	for _, line := range trace[1:] {
		seen[line] = true
	}
	if len(seen) != 4000 {
		t.Errorf("%d distinct lines, want 4000", len(seen))
	}
}

// TestCallsAllocateNothing: recording allocates nothing but the buffer, on the call's side.
func TestCallsAllocateNothing(t *testing.T) {
	r, _ := open(t, Config{Sample: 2})
	p := r.Policy(rule(t, "search"))
	request := attempt(1, "192.0.2.1")
	for range 4000 {
		p.Decided(request, grantAt(1))
	}
	if n := testing.AllocsPerRun(1000, func() { p.Decided(request, grantAt(1)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDecided(b *testing.B) {
	for _, sample := range []int64{1, 10} {
		b.Run(fmt.Sprintf("sample=%d", sample), func(b *testing.B) {
			r, _ := open(b, Config{Sample: sample, FileBytes: 64 << 20, Files: 2})
			p := r.Policy(rule(b, "search"))
			var requests []*enforce.Request
			for i := range 1000 {
				requests = append(requests, attempt(1, fmt.Sprintf("192.0.2.%d", i)))
			}
			for i := 0; b.Loop(); i++ {
				p.Decided(requests[i%1000], grantAt(int64(i)))
			}
			b.ReportMetric(float64(r.Dropped.Load())/float64(b.N), "dropped/op")
		})
	}
}

// sleepPeriods waits for n writes, in virtual time.
func sleepPeriods(n int) {
	time.Sleep(time.Duration(n)*period + period/2)
	synctest.Wait()
}
