package resp

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
)

// run runs a program of the tests and returns its output.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), needs.Program(t, name), args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	addrPort, err := netip.ParseAddrPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(addrPort.Port())
}

func TestRedisCLISendsCommands(t *testing.T) {
	port := portOf(t, listening(t, newTestServer(t)))
	cli := func(args ...string) string {
		t.Helper()
		return run(t, "", "redis-cli", append([]string{"-p", port}, args...)...)
	}
	for _, c := range []struct{ args, want string }{
		{"PING", "PONG\n"},
		{"WEIR.CHECK push teacher=42 10", "1\n10\n0\n60000\n60000\n\nAT\n0\n0\n"},
		{"-3 WEIR.CHECK push teacher=42", "0\n0\n0\nLATER\nLATER\nlimit\nAT\n0\n0\n"},
		{"WEIR.RESET push teacher=42", "limit\n\n"},
		{"WEIR.CHECK push teacher", "ERR teacher has no =; write WEIR.CHECK policy dimension=value … [n] [WAIT milliseconds] [ID id], with a dimension=value for each of teacher\n\n"},
		{"WEIR.CHECK push teacher=42 many", "ERR n must be a whole number, 0 to 2251799813685247, in digits alone, not many; write WEIR.CHECK policy dimension=value … [n] [WAIT milliseconds] [ID id]\n\n"},
	} {
		got := cli(strings.Fields(c.args)...)
		want := regexp.QuoteMeta(c.want)
		want = strings.NewReplacer("AT", `\d{16}`, "LATER", `\d{5}`).Replace(want)
		if !regexp.MustCompile("^" + want + "$").MatchString(got) {
			t.Errorf("redis-cli %s: %q, want %q", c.args, got, c.want)
		}
	}
}

// TestRedisBenchmarkRunsWithoutErrors runs redis-benchmark, alone and with pipelines. It warns that
// there is no CONFIG to print.
func TestRedisBenchmarkRunsWithoutErrors(t *testing.T) {
	s := newTestServer(t)
	port := portOf(t, listening(t, s))
	for _, pipeline := range []string{"1", "16"} {
		for _, ask := range []string{"WEIR.CHECK big k=__rand_int__", "WEIR.CHECK push teacher=__rand_int__"} {
			args := append([]string{"-p", port, "-r", "100", "-n", "4000", "-c", "8", "-P", pipeline, "--csv"}, strings.Fields(ask)...)
			out := run(t, "", "redis-benchmark", args...)
			out = strings.ReplaceAll(out, "WARNING: Could not fetch server CONFIG\n", "")
			if strings.Contains(out, "rror") || strings.Contains(out, "WARNING") || !strings.Contains(out, `"`+ask+`"`) {
				t.Errorf("redis-benchmark %s with pipelines of %s:\n%s", ask, pipeline, out)
			}
		}
	}
	if n := s.Rejected.Load(); n != 4*2 {
		t.Errorf("%d commands were rejected, want the two CONFIG of each run alone", n)
	}
}

// TestNodeClientsSendCommands runs the two Redis clients of Node programs, from the
// registry of npm, at the versions of testdata/node/package-lock.json.
func TestNodeClientsSendCommands(t *testing.T) {
	t.Parallel()
	address := listening(t, newTestServer(t))
	got := run(t, needs.Modules(t, "testdata/node"), "node", "client.mjs", portOf(t, address))
	want := `ioredis [1,3,7,0,60000,"","number",0,0]
ioredis [[0,0,7,WAIT,WAIT,"limit","number",0,0],[null,"höher"]]
ioredis 10
ioredis "ERR"
node-redis-2 "PONG"
node-redis-2 [0,0,10,-1,0,"limit","number",0,0]
node-redis-2 10
node-redis-2 "ERR"
node-redis-3 "PONG"
node-redis-3 [0,0,10,-1,0,"limit","number",0,0]
node-redis-3 10
node-redis-3 "ERR"
`
	if !regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(want), "WAIT", `\d+`) + "$").MatchString(got) {
		t.Errorf("node client.mjs printed\n%s\nwant\n%s", got, want)
	}
}

// TestIoredisExample runs examples/ioredis, with the policy and the timeout of a test,
// through a relay that loses an answer and then stops.
func TestIoredisExample(t *testing.T) {
	t.Parallel()
	address := listening(t, newTestServer(t))
	text, err := os.ReadFile("../../../../../examples/ioredis/check.mjs")
	if err != nil {
		t.Fatal(err)
	}
	block := string(text)
	for _, change := range [][2]string{
		{"7073", "process.env.PORT"},
		{"commandTimeout: 250", "commandTimeout: 20_000"}, // a busy machine is slow
		{"'search', `ip=", "'push', `teacher="},
	} {
		if !strings.Contains(block, change[0]) {
			t.Fatalf("the example has no %s:\n%s", change[0], block)
		}
		block = strings.Replace(block, change[0], change[1], 1)
	}
	dir := needs.Modules(t, "testdata/node")
	must.Do(t, os.WriteFile(filepath.Join(dir, "example.mjs"), []byte(block), 0o600))
	got := run(t, dir, "node", "outage.mjs", portOf(t, address))
	want := `at first {"allowed":true,"retryAfterMs":0}
after a lost answer {"allowed":true,"retryAfterMs":0}
undefined "ip must be text"
log "weir: connect ECONNREFUSED 127.0.0.1:PORT"
while weir is down {"allowed":false,"retryAfterMs":1000}
immediately true
when it is back {"allowed":true,"retryAfterMs":0}
left 7
`
	if got != want {
		t.Errorf("node outage.mjs printed\n%s\nwant\n%s", got, want)
	}
}

// TestGoClientsSendCommands runs the two Redis clients of Go programs, with and without
// RESP3.
func TestGoClientsSendCommands(t *testing.T) {
	address := listening(t, newTestServer(t))
	ctx := context.Background()
	for _, protocol := range []int{2, 3} {
		c := goredis.NewClient(&goredis.Options{Addr: address, Protocol: protocol, ClientName: "go", MaxRetries: -1})
		got, err := c.Do(ctx, "WEIR.CHECK", "push", "teacher=goredis").Slice()
		if err != nil || len(got) != 9 || got[0] != int64(1) {
			t.Errorf("go-redis with RESP%d: %v, %v", protocol, got, err)
		}
		c.Close()
	}
	for name, option := range map[string]rueidis.ClientOption{
		"rueidis":                 {ClientName: "go"}, // as it comes, with client-side caching
		"rueidis without a cache": {DisableCache: true},
		"rueidis with RESP2":      {DisableCache: true, AlwaysRESP2: true},
	} {
		option.InitAddress = []string{address}
		c, err := rueidis.NewClient(option)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		defer c.Close()
		got, err := c.Do(ctx, c.B().Arbitrary("WEIR.CHECK").Args("push", "teacher="+name).Build()).ToArray()
		if err != nil || len(got) != 9 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestDeepPipelinesAreAnsweredInOrder: a client that sends all commands before it reads
// gets every answer, in order.
func TestDeepPipelinesAreAnsweredInOrder(t *testing.T) {
	const deep = 10_000
	c := goredis.NewClient(&goredis.Options{Addr: listening(t, newTestServer(t)), MaxRetries: -1})
	defer c.Close()
	p := c.Pipeline()
	for i := range deep {
		p.Do(t.Context(), "WEIR.RECORD", "big", "k=deep")
		p.Do(t.Context(), "ECHO", i)
	}
	answers, err := p.Exec(t.Context())
	if err != nil || len(answers) != 2*deep {
		t.Fatalf("%d answers, %v", len(answers), err)
	}
	for i := range deep {
		recorded, err := answers[2*i].(*goredis.Cmd).Slice()
		if want := int64(1<<40 - 1 - i); err != nil || recorded[2] != want {
			t.Fatalf("record %d: %v, %v; want %d left", i, recorded, err, want)
		}
		if echo, err := answers[2*i+1].(*goredis.Cmd).Int(); err != nil || echo != i {
			t.Fatalf("echo %d: %d, %v", i, echo, err)
		}
	}
}
