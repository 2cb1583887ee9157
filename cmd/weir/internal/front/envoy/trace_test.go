package envoy

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/cmd/weir/internal/testkit/enginetest"
	"github.com/weirlimit/weir/cmd/weir/internal/topkeys"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/internal/testkit/txtar"
	"github.com/weirlimit/weir/policy"
)

var rewrite = flag.Bool("rewrite", false, "write the answers of the traces instead of comparing with them")

// TestTraces plays each trace of the archive in virtual time, on memory and on Redis, and the one
// with the name cluster on a Redis Cluster.
func TestTraces(t *testing.T) {
	const path = "testdata/traces.txtar"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	archive := txtar.Parse(text)
	for i := range archive.Files {
		f := &archive.Files[i]
		if strings.HasSuffix(f.Name, ".yaml") {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			play := func(t *testing.T, c *clocked) {
				tr := &trace{t: t, files: archive.Files, clock: c}
				for line := range strings.Lines(string(f.Data)) {
					tr.play(strings.TrimSuffix(line, "\n"))
				}
				if *rewrite {
					f.Data = []byte(tr.played.String())
				}
			}
			onEach(t, play)
			if f.Name == "cluster" {
				e, conn := enginetest.On(t, redistest.StartCluster(t).Addrs()...)
				if clustered, err := conn.Clustered(t.Context()); err != nil || !clustered {
					t.Fatal("the engine did not detect the Cluster")
				}
				play(t, newClock(e))
			}
		})
	}
	if *rewrite {
		must.Do(t, os.WriteFile(path, txtar.Format(archive), 0o644))
	}
}

// trace is a trace under way.
type trace struct {
	t      *testing.T
	files  []txtar.File
	clock  *clocked
	engine *counting
	p      *proxy
	steps  bool // answers show the calls of the engine
	played strings.Builder
}

// play plays a line.
func (tr *trace) play(line string) {
	tr.t.Helper()
	call, want, decides := strings.Cut(line, " -> ")
	words := append(strings.Fields(line), "", "")
	switch {
	case decides:
		got := tr.answer(call)
		if got != want && !*rewrite {
			tr.t.Errorf("%s\n got %s\nwant %s", call, got, want)
		}
		line = call + " -> " + got
	case words[0] == "use":
		tr.use(words[1:])
	case words[0] == "load":
		tr.load(words[1])
	case words[0] == "in":
		tr.p = tr.p.in(words[1])
	case words[0] == "pass":
		duration, err := time.ParseDuration(words[1])
		if err != nil {
			tr.t.Fatal(err)
		}
		tr.clock.pass(duration)
	case words[0] == "at":
		instant, err := time.Parse(time.RFC3339, words[1])
		if err != nil {
			tr.t.Fatal(err)
		}
		tr.clock.now = instant.UnixMicro()
	case words[0] != "#":
		tr.t.Fatalf("unknown line %q", line)
	}
	tr.played.WriteString(line + "\n")
}

// use begins a service: apart decides no descriptors together, fixed has fixed windows, steps
// shows the calls of the engine, and headers adds fields. Other words are files.
func (tr *trace) use(words []string) {
	tr.engine, tr.steps = &counting{Engine: tr.clock}, slices.Contains(words, "steps")
	if slices.Contains(words, "apart") {
		tr.engine.Engine = apart{tr.clock}
	}
	tr.p = connect(tr.t, tr.engine, nil, func(o *Options) {
		o.Top = func(int) *topkeys.Sketch { return topkeys.New(64, topkeys.Shown) }
		if slices.Contains(words, "fixed") {
			o.Windows = Fixed
		}
		if slices.Contains(words, "headers") {
			o.Response = true
			o.Request = true
		}
	})
	tr.load(words...)
}

// load brings files into force: Envoy's configuration, a policy file, or the examples of the
// manual.
func (tr *trace) load(names ...string) {
	tr.t.Helper()
	var config *envoyconf.Config
	var rules []*enforce.Rule
	for _, name := range names {
		i := slices.IndexFunc(tr.files, func(f txtar.File) bool { return f.Name == name })
		switch {
		case name == "manual":
			config = examples(tr.t)
		case i < 0:
		case strings.HasPrefix(string(tr.files[i].Data), "version:"):
			rules = rulesOn(tr.t, tr.engine, string(tr.files[i].Data))
		default:
			config = parse(tr.t, string(tr.files[i].Data))
		}
	}
	must.Do(tr.t, tr.p.service.Load(config, rules))
	if config != nil {
		tr.p.domain = config.Domains[0].Name
	}
}

// answer returns the answer to descriptors with a ; between them. Other calls:
//
//   - N times DESCRIPTORS: the number of granted requests
//   - addend N DESCRIPTORS: a request with hits of its own
//   - limit DESCRIPTOR: the limit that the answer shows
//   - headers DESCRIPTORS: the fields of the response and of the request
//   - hits RULE, rules, denied: the metrics of a rule, the granted hits and the denied keys of each
func (tr *trace) answer(call string) string {
	tr.t.Helper()
	verb, rest, _ := strings.Cut(call, " ")
	many, descriptors, _ := strings.Cut(call, " times ")
	if n, err := strconv.Atoi(many); err == nil {
		return fmt.Sprint(tr.p.granted(n, strings.Split(descriptors, "; ")...), " granted")
	}
	switch verb {
	case "addend":
		n, descriptors, _ := strings.Cut(rest, " ")
		r := tr.p.request(strings.Split(descriptors, "; ")...)
		r.HitsAddend = uint32(numeral(tr.t, n))
		rateLimitResponse, err := tr.p.send(r)
		if err != nil {
			tr.t.Fatal(err)
		}
		return brief(rateLimitResponse)
	case "limit":
		l := tr.p.ask(rest).Statuses[0].CurrentLimit
		return strings.TrimSpace(fmt.Sprintf("%s %d per %d %v", l.Name, l.RequestsPerUnit, cmp.Or(l.UnitMultiplier.GetValue(), 1), l.Unit))
	case "hits":
		return tr.p.hits(rest)
	case "headers":
		a := tr.p.ask(strings.Split(rest, "; ")...)
		return cmp.Or(fields(a.ResponseHeadersToAdd), "none") + "; " + cmp.Or(fields(a.RequestHeadersToAdd), "none")
	case "denied":
		return cmp.Or(strings.Join(tr.p.denied(), ", "), "none")
	case "rules":
		return strings.Join(tr.p.counted(), ", ")
	}
	tr.engine.calls = 0
	got := brief(tr.p.ask(strings.Split(call, "; ")...))
	if tr.steps {
		got += fmt.Sprintf(", steps %d", tr.engine.calls)
	}
	return got
}

// rulesOn returns the policies of a file on an engine.
func rulesOn(t testing.TB, e engine.Engine, source string) (all []*enforce.Rule) {
	t.Helper()
	file, err := policy.Parse("weir.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range file.Policies {
		rule, err := enforce.NewRule(p, e)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rule)
	}
	return all
}
