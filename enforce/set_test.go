package enforce

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/policy"
)

const source = `version: 1
policies:
  api:
    limit: 1 per minute per tenant per user
    plan-by: plan
    plans: {pro: 10 per minute}
  shadow: {limit: 1 per minute per user, shadow: true}
`

func newSet(t *testing.T, src string) *Set {
	t.Helper()
	f, err := policy.Parse("weir.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	set, err := New(f, weir.NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestSetMethods: each method decides, charges, refunds or resets as its name states, by the
// plan that the values name.
func TestSetMethods(t *testing.T) {
	s, ctx, ann := newSet(t, source), context.Background(), map[string]string{"user": "ann", "tenant": "t"}
	pro := map[string]string{"user": "ann", "tenant": "t", "plan": "pro"}

	o, err := s.Peek(ctx, "api", ann, 1)
	wantOutcome(t, o, err, true, 1)
	o, err = s.Check(ctx, "api", ann, 1)
	wantOutcome(t, o, err, true, 0)
	granted := o.At
	o, err = s.Check(ctx, "api", ann, 1)
	wantOutcome(t, o, err, false, 0)
	if n, err := s.Refund(ctx, "api", ann, granted, 1); n != 1 || err != nil {
		t.Errorf("refunded %d, %v; want 1", n, err)
	}

	until, err := s.Block(ctx, "api", ann, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	o, err = s.Peek(ctx, "api", ann, 1)
	wantOutcome(t, o, err, false, 0)
	if o.Blocked != until || o.Decision.Blocked > time.Hour {
		t.Errorf("blocked until %v for %v, want %v", o.Blocked, o.Decision.Blocked, until)
	}
	if until, err := s.Block(ctx, "api", ann, 0); !until.IsZero() || err != nil {
		t.Errorf("released: blocked until %v, %v", until, err)
	}

	o, err = s.Record(ctx, "api", ann, 3)
	wantOutcome(t, o, err, true, -2)
	if _, err := s.Reset(ctx, "api", ann); err != nil {
		t.Fatal(err)
	}
	for range 2 { // an idempotency key charges once
		o, err = s.Decide(ctx, "api", ann, weir.Request{N: 1, ID: "a"})
		wantOutcome(t, o, err, true, 0)
	}
	o, err = s.Check(ctx, "api", pro, 1)
	wantOutcome(t, o, err, true, 8)
	if o.Plan != "pro" {
		t.Errorf("plan %q; want pro", o.Plan)
	}
}

func wantOutcome(t *testing.T, o weir.Outcome, err error, allowed bool, remaining int64) {
	t.Helper()
	if err != nil || o.Allowed != allowed || o.Remaining != remaining {
		t.Errorf("%+v, %v; want allowed %v, %d left", o.Decision, err, allowed, remaining)
	}
}

func TestSetErrors(t *testing.T) {
	s, ctx := newSet(t, source), context.Background()
	for _, c := range []struct {
		name   string
		values map[string]string
		is     error
		holds  string
	}{
		{"shadw", map[string]string{"user": "u"}, ErrNoPolicy, `weir: no policy "shadw"; did you mean "shadow"?`},
		{"zzzzzzzzzzzz", nil, ErrNoPolicy, `"zzzzzzzzzzzz"`},
		{"shadow", nil, &weir.InputError{Field: "key"}, `needs a value for "user"`},
		{"shadow", map[string]string{"user": ""}, &weir.InputError{Field: "key"}, `the value of "user" is empty`},
		{"shadow", map[string]string{"user": "u", "ip": "1"}, &weir.InputError{Field: "key"}, `has no dimension "ip"`},
	} {
		_, checkErr := s.Check(ctx, c.name, c.values, 1)
		_, refundErr := s.Refund(ctx, c.name, c.values, time.Now(), 1)
		_, resetErr := s.Reset(ctx, c.name, c.values)
		for _, err := range []error{checkErr, refundErr, resetErr} {
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.holds) {
				t.Errorf("%s %v: got %v, want %v with %s", c.name, c.values, err, c.is, c.holds)
			}
		}
	}
	for _, r := range []weir.Request{{}, {N: 1, TTL: 1}, {N: 1, States: make([]weir.LimitState, 2)}} {
		if _, err := s.Decide(ctx, "shadow", map[string]string{"user": "u"}, r); !errors.Is(err, weir.ErrInput) {
			t.Errorf("%+v: got %v, want a bad request", r, err)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none.yaml"), weir.NewMemory()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := Open("", weir.NewMemory()); err == nil || !strings.HasPrefix(err.Error(), `path "": the file cannot be read`) {
		t.Errorf("an empty path: %v", err)
	}
	if err := s.Watch(ctx, nil); err == nil || !strings.Contains(err.Error(), "enforce.Open") {
		t.Errorf("a set without a file: %v", err)
	}
}

// TestSetReload: a reload replaces all policies, and units already granted count on.
func TestSetReload(t *testing.T) {
	const one, two = "version: 1\npolicies: {a: {limit: 1 per hour}}", "version: 1\npolicies: {a: {limit: 3 per hour}, b: {limit: 1 per hour}}"
	ctx, s := context.Background(), newSet(t, one)
	if o, err := s.Check(ctx, "a", nil, 1); err != nil || !o.Allowed {
		t.Fatal(o, err)
	}
	f, err := policy.Parse("weir.yaml", []byte(two))
	if err != nil {
		t.Fatal(err)
	}
	must.Do(t, s.Reload(f))
	if o, err := s.Check(ctx, "a", nil, 1); err != nil || !o.Allowed || o.Remaining != 1 {
		t.Errorf("the second of 3: %+v, %v", o, err)
	}
	f.Policies[1].Limits[0].Window = 0
	if err := s.Reload(f); err == nil {
		t.Error("a policy without a window was accepted")
	}
	if o, err := s.Check(ctx, "b", nil, 1); err != nil || !o.Allowed {
		t.Errorf("after a failed reload: %+v, %v", o, err)
	}
}

// TestReloadKeepsTheContentOfTheFile: Watch takes the file for unchanged after a Reload of other
// policies, so it does not undo them.
func TestReloadKeepsTheContentOfTheFile(t *testing.T) {
	path, content := filepath.Join(t.TempDir(), "weir.yaml"), []byte("version: 1\npolicies: {a: {limit: 1 per hour}}")
	must.Do(t, os.WriteFile(path, content, 0o600))
	s, err := Open(path, weir.NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	other, err := policy.Parse("other", []byte("version: 1\npolicies: {b: {limit: 2 per hour}}"))
	if err != nil {
		t.Fatal(err)
	}
	must.Do(t, s.Reload(other))
	if seen := s.policies.Version().Source; !bytes.Equal(seen, content) {
		t.Errorf("Watch begins with %q, want the content that Open read", seen)
	}
}

// TestWatchLogsByDefault: without a function for reloads, Watch logs them.
func TestWatchLogsByDefault(t *testing.T) {
	log := make(logLines, 10)
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	path := filepath.Join(t.TempDir(), "weir.yaml")
	write := func(policy string) {
		t.Helper()
		must.Do(t, os.WriteFile(path+".new", []byte("version: 1\npolicies: {a: "+policy+"}"), 0o600))
		must.Do(t, os.Rename(path+".new", path))
	}
	write("{limit: 1 per hour per user}")
	s, err := Open(path, weir.NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Watch(ctx, nil) }()
	wantLog := func(want string) {
		t.Helper()
		if line := <-log; !strings.Contains(line, want) {
			t.Errorf("the log has %s, want %s", line, want)
		}
	}
	write("{limit: 2 per minit per user}")
	wantLog(`level=ERROR msg="weir: policies not reloaded; those in force stay" source=` + path + ` error="`)
	write("{limit: 3 per hour per user, overrides: [{for: {user: ann}, limit: 9 per hour, until: 2020-01-01, why: Trial.}]}")
	wantLog(`level=INFO msg="weir: policies reloaded" source=` + path + ` changes="a: limit 1 → 3 per hour per user; a: override user=ann 9 per hour per user, until 2020-01-01, why \"Trial.\" added"`)
	wantLog(`level=WARN msg="weir: an override has expired and no longer applies; remove it" policy=a line=2 until=2020-01-02T00:00:00.000Z reason=Trial.`)
	stop()
	<-ended
}

// logLines receives the lines of a log.
type logLines chan string

func (l logLines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// TestSetWatch: a changed file comes into force, a wrong one changes nothing, and Watch
// ends with its context.
func TestSetWatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.yaml")
	write := func(limit string) {
		t.Helper()
		must.Do(t, os.WriteFile(path+".new", []byte("version: 1\npolicies: {a: {limit: "+limit+"}}"), 0o600))
		must.Do(t, os.Rename(path+".new", path))
	}
	write("1 per hour")
	s, err := Open(path, weir.NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	write("2 per hour") // a change between Open and Watch is noticed
	ctx, stop := context.WithCancel(context.Background())
	reloaded, ended := make(chan error), make(chan error)
	go func() { ended <- s.Watch(ctx, func(err error) { reloaded <- err }) }()
	room := func(want int64) {
		t.Helper()
		if o, err := s.Peek(ctx, "a", nil, 1); err != nil || o.Remaining != want {
			t.Errorf("%d left, %v; want %d", o.Remaining, err, want)
		}
	}
	must.Do(t, <-reloaded)
	room(2)
	write("2 per minit")
	if err := <-reloaded; err == nil || !strings.Contains(err.Error(), "minit") {
		t.Errorf("a wrong file: %v", err)
	}
	room(2)
	must.Do(t, exec.Command("mkfifo", path+".new").Run())
	must.Do(t, os.Rename(path+".new", path))
	if err := <-reloaded; err == nil || !strings.Contains(err.Error(), "is a pipe") {
		t.Errorf("a pipe in place of the file: %v", err)
	}
	write("5 per hour")
	must.Do(t, <-reloaded)
	room(5)
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Watch returned %v, want context.Canceled", err)
	}
}
