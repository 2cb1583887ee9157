package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/internal/testkit/program"
)

// A caseFile is clients/testdata/cases.json, whose README.md describes it.
type caseFile struct {
	About   string                `json:"about"`
	Servers map[string]caseServer `json:"servers"`
	Cases   []testCase            `json:"cases"`
}

type caseServer struct {
	Policies []string `json:"policies"` // lines
	Token    string   `json:"token"`
	TLS      bool     `json:"tls"`
	Unix     bool     `json:"unix"`
	Flags    []string `json:"flags"`
}

type testCase struct {
	Name   string   `json:"name"`
	Server string   `json:"server"` // "" = main
	Fronts []string `json:"fronts"` // empty = resp and http
	Client settings `json:"client"`
	Steps  []step   `json:"steps"`
}

// settings are those of the client of a case.
type settings struct {
	TimeoutMS int             `json:"timeout_ms"` // of one attempt; 0 = 20 s
	TotalMS   int             `json:"total_ms"`   // of the call with its retries; 0 = 40 s
	Retries   *int            `json:"retries"`    // nil = 2
	WhenDown  string          `json:"when_down"`  // "" = deny
	Token     json.RawMessage `json:"token"`      // missing = that of the server; null = none
}

// A step is a call, a fault, or a call that is repeated until it gets its answer.
type step struct {
	Fault *fault `json:"fault"`
	Until *step  `json:"until"`

	Call      string         `json:"call"`
	Front     string         `json:"front"` // "" = that of the run
	Policy    string         `json:"policy"`
	Limit     any            `json:"limit"` // the text of a limit, or several, instead of a policy
	Name      string         `json:"name"`  // with limit
	Key       map[string]any `json:"key"`
	N         any            `json:"n"`
	ID        any            `json:"id"`
	TTL       any            `json:"ttl_ms"`
	MaxWait   any            `json:"max_wait_ms"`
	For       any            `json:"for_ms"`
	Actual    any            `json:"actual"`
	AtMicros  any            `json:"at_us"`
	Limits    []string       `json:"limits"` // of a reset or a block
	Of        string         `json:"of"`
	Save      string         `json:"save"`
	Parallel  int            `json:"parallel"`
	WantCount *int           `json:"want_allowed"` // of parallel calls
	Want      map[string]any `json:"want"`
	Error     *wantError     `json:"error"`
}

type wantError struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
	By   string `json:"by"` // client: the client has words of its own, which Go does not compare
}

// TestSharedCases runs the cases of all clients with the plain client of this package. So a case
// describes the server, and not only what one client makes of it.
func TestSharedCases(t *testing.T) {
	needs.Time(t)
	s, err := newStand(program.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	file := readCases(t)
	for _, c := range file.Cases {
		for _, front := range frontsOf(&c) {
			t.Run(c.Name+"/"+front, func(t *testing.T) {
				t.Parallel()
				runCase(t, s, file, &c, front)
			})
		}
	}
}

func readCases(t *testing.T) *caseFile {
	t.Helper()
	f, err := os.Open("../testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := json.NewDecoder(f)
	d.DisallowUnknownFields()
	d.UseNumber()
	var file caseFile
	must.Do(t, d.Decode(&file))
	return &file
}

// frontsOf returns the fronts over which a case runs.
func frontsOf(c *testCase) []string {
	if len(c.Fronts) > 0 {
		return c.Fronts
	}
	return []string{"resp", "http"}
}

// A caseRun is that of one case over one front.
type caseRun struct {
	t       *testing.T
	clients map[string]*client
	front   string
	saved   map[string]map[string]any
	fail    func(f fault)
}

func runCase(t *testing.T, s *stand, file *caseFile, c *testCase, front string) {
	name := c.Server
	if name == "" {
		name = "main"
	}
	of, ok := file.Servers[name]
	if !ok {
		t.Fatalf("no server %q", name)
	}
	started, err := s.start(options{
		Policies: strings.Join(of.Policies, "\n"),
		Token:    of.Token,
		TLS:      of.TLS,
		Unix:     of.Unix,
		Flags:    of.Flags,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(started.stop)
	token := of.Token
	if c.Client.Token != nil {
		token = ""
		must.Do(t, json.Unmarshal(c.Client.Token, &token)) // null stays ""
	}
	r := &caseRun{
		t:       t,
		clients: map[string]*client{},
		front:   front,
		saved:   map[string]map[string]any{},
		fail:    func(f fault) { must.Do(t, started.fail(f)) },
	}
	for _, front := range []string{"resp", "http"} {
		r.clients[front] = newClient(started, front, token, &c.Client)
		t.Cleanup(r.clients[front].close)
	}
	for i := range c.Steps {
		r.step(fmt.Sprint("step ", i+1), &c.Steps[i])
	}
}

func (r *caseRun) step(place string, s *step) {
	r.t.Helper()
	switch {
	case s.Fault != nil:
		r.fail(*s.Fault)
	case s.Until != nil:
		for {
			problem := r.call(s.Until)
			if problem == "" {
				return
			}
			if r.t.Context().Err() != nil {
				r.t.Fatalf("%s: %s", place, problem)
			}
		}
	case s.Parallel > 0:
		begun := time.Now()
		if got := r.parallel(s); got != *s.WantCount {
			r.t.Fatalf("%s: %d of %d calls were allowed, want %d", place, got, s.Parallel, *s.WantCount)
		}
		took := time.Since(begun).Milliseconds()
		if want := s.Want["elapsed_ms"]; want != nil && !matches(took, want) {
			r.t.Fatalf("%s: the calls took %d ms, want %v", place, took, want)
		}
	default:
		if problem := r.call(s); problem != "" {
			r.t.Fatalf("%s: %s", place, problem)
		}
	}
}

// parallel makes a call many times at once, and returns how many were allowed.
func (r *caseRun) parallel(s *step) (allowed int) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for range s.Parallel {
		all.Go(func() {
			got, err := r.client(s).call(s, nil)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				r.t.Error(err)
			} else if got["allowed"] == true {
				allowed++
			}
		})
	}
	all.Wait()
	return allowed
}

func (r *caseRun) client(s *step) *client {
	if s.Front != "" {
		return r.clients[s.Front]
	}
	return r.clients[r.front]
}

// call makes a call, and returns how its answer differs from the wanted one.
func (r *caseRun) call(s *step) (problem string) {
	begun := time.Now()
	got, err := r.client(s).call(s, r.saved[s.Of])
	if s.Error != nil {
		var failed *callError
		switch {
		case errors.Is(err, errNotSendable) && s.Error.By == "client":
			return ""
		case !errors.As(err, &failed):
			return fmt.Sprintf("%s: %v, %v; want the error %q", s.Call, got, err, s.Error.Kind)
		case failed.kind != s.Error.Kind:
			return fmt.Sprintf("%s: an error of kind %q (%v), want %q", s.Call, failed.kind, err, s.Error.Kind)
		case s.Error.By == "" && !strings.Contains(failed.text, s.Error.Text):
			return fmt.Sprintf("%s: the error %q, want %q in it", s.Call, failed.text, s.Error.Text)
		}
		return ""
	}
	if err != nil {
		return fmt.Sprintf("%s: %v", s.Call, err)
	}
	if s.Save != "" {
		r.saved[s.Save] = got
	}
	got = maps.Clone(got)
	got["elapsed_ms"] = int64(time.Since(begun) / time.Millisecond)
	for _, name := range slices.Sorted(maps.Keys(s.Want)) {
		if !matches(got[name], s.Want[name]) {
			return fmt.Sprintf("%s: %s is %v, want %v, in %v", s.Call, name, got[name], s.Want[name], got)
		}
	}
	return ""
}

// matches reports whether a value is the wanted one: equal, or in a range of two numbers, or one of
// two booleans. A list of names is equal as a whole.
func matches(got, want any) bool {
	list, ok := want.([]any)
	if !ok {
		return fmt.Sprint(got) == fmt.Sprint(want) && got != nil
	}
	if names, ok := got.([]any); ok {
		return len(names) == len(list) && (len(names) == 0 || reflect.DeepEqual(names, list))
	}
	if _, ok := got.(bool); ok {
		return slices.Contains(list, got)
	}
	n, ok := wholeNumber(got)
	least, _ := wholeNumber(list[0])
	most, _ := wholeNumber(list[1])
	return ok && n >= least && n <= most
}

func wholeNumber(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case json.Number:
		n, err := v.Int64()
		return n, err == nil
	}
	return 0, false
}

// TestCasesHaveNamesOfTheirOwn: suites print a case by its name.
func TestCasesHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range readCases(t).Cases {
		if seen[c.Name] || len(c.Steps) == 0 {
			t.Errorf("case %q is there twice, or has no steps", c.Name)
		}
		seen[c.Name] = true
	}
	if len(seen) < 80 {
		t.Errorf("%d cases, want at least 80", len(seen))
	}
}

// TestAServerThatDoesNotStart: the answer has the words of weir.
func TestAServerThatDoesNotStart(t *testing.T) {
	s, err := newStand(program.Path(t))
	must.Do(t, err)
	t.Cleanup(s.close)
	_, err = s.start(options{Policies: "version: 1\npolicies:\n  five: {limit: 5 per minut}"})
	if err == nil || !strings.Contains(err.Error(), "minut") {
		t.Errorf("started with a wrong policy: %v", err)
	}
}
