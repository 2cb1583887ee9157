//go:build unix

package docsrun_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/markdown"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/internal/testkit/program"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/policy"
)

// The tests of this file run the blocks of docs/migrating.md, and old code that the page names,
// which is in testdata/migrating. The old code and the new code get the same attempts, and the table
// at the top of the page has the results. migrating_go_test.go has the Go code, bench/scoreboard that
// of other Go limiters, and integrations that of nginx.

const migratingPage = "docs/migrating.md"

// sectionBlocks returns the blocks of a section of the page in one language, in their order.
func sectionBlocks(t *testing.T, section, language string, want int) (blocks []string) {
	t.Helper()
	_, text, _ := strings.Cut(read(t, migratingPage), "\n## "+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	blocks = markdown.Texts(text, language)
	if len(blocks) != want {
		t.Fatalf("section %q of %s has %d blocks of %s, want %d", section, migratingPage, len(blocks), language, want)
	}
	return blocks
}

// onlyBlock returns the one block of a section in a language.
func onlyBlock(t *testing.T, section, language string) string {
	t.Helper()
	return sectionBlocks(t, section, language, 1)[0]
}

// calling is the section whose new code replaces several limiters.
const calling = "Calling Weir"

// oldCode returns a file of testdata/migrating.
func oldCode(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "migrating", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A score is a row of the table at the top of the page.
type score struct {
	minute int // most attempts that passed in any minute
	three  int // attempts of three minutes that passed
}

// scoreOf returns the row of the page that begins with a name.
func scoreOf(t *testing.T, name string) score {
	t.Helper()
	row := regexp.MustCompile(`(?m)^\| \[?` + regexp.QuoteMeta(name) + `[^|]*\| (\d+) \| (\d+) \|`)
	m := row.FindStringSubmatch(read(t, migratingPage))
	if m == nil {
		t.Fatalf("the table of %s has no row for %s", migratingPage, name)
	}
	minute, _ := strconv.Atoi(m[1])
	three, _ := strconv.Atoi(m[2])
	return score{minute, three}
}

const (
	second = int64(1_000_000) // microseconds, as all instants of the attack
	minute = 60 * second
)

// edges is an attempt, a burst shortly before the minute after it ends, and one at its end.
func edges() []int64 { return slices.Concat(burst(0, 1), burst(57*second, 40), burst(minute, 40)) }

// polls is a burst, and an attempt every 0.6 s for three minutes.
func polls() []int64 {
	at := burst(0, 40)
	for i := int64(1); i < 300; i++ {
		at = append(at, i*6*second/10)
	}
	return at
}

// burst is n attempts 1 µs apart.
func burst(at int64, n int) []int64 {
	all := make([]int64, n)
	for i := range all {
		all[i] = at + int64(i)
	}
	return all
}

// attack sends both series of attempts, each with a key of its own. passed returns the instants
// of those that passed.
func attack(passed func(key string, at []int64) []int64) score {
	atEdges, polled := passed("192.0.2.1", edges()), passed("192.0.2.2", polls())
	return score{minute: max(maxInAMinute(atEdges), maxInAMinute(polled)), three: len(polled)}
}

// maxInAMinute returns the most instants in [s, s + a minute) for any s.
func maxInAMinute(at []int64) (most int) {
	for i, first := range at {
		end, _ := slices.BinarySearch(at, first+minute)
		most = max(most, end-i)
	}
	return most
}

// attackLimiter attacks a limiter of Weir in virtual time.
func attackLimiter(t *testing.T, limiter *weir.Limiter) score {
	t.Helper()
	start := time.Date(2026, time.January, 5, 9, 0, 0, 0, time.UTC)
	return attack(func(key string, at []int64) []int64 {
		return passing(at, func(at int64) bool {
			d, err := limiter.At(start.Add(time.Duration(at)*time.Microsecond)).Allow(t.Context(), weir.K(key))
			if err != nil {
				t.Fatal(err)
			}
			return d.Allowed
		})
	})
}

// compare logs the score of a limiter and compares it with the page.
func compare(t *testing.T, name string, got score) {
	t.Helper()
	t.Logf("%s: %d in one minute, %d in three, at a limit of 20 a minute", name, got.minute, got.three)
	if want := scoreOf(t, name); got != want {
		t.Errorf("%s: %+v passed, and the table of %s has %+v", name, got, migratingPage, want)
	}
}

// filePolicy returns a policy of the section's file.
func filePolicy(t *testing.T, section, name string) weir.Policy {
	t.Helper()
	file, err := policy.Parse(section, []byte(onlyBlock(t, section, "yaml")))
	if err != nil {
		t.Fatal(err)
	}
	p, err := file.Definition(name).Policy()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// newLimiter returns a limiter of the policy in memory.
func newLimiter(t *testing.T, p weir.Policy) *weir.Limiter {
	t.Helper()
	limiter, err := weir.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return limiter
}

// TestMigratingNode runs the limiters of Node in virtual time, and the code that replaces
// them on a real service.
func TestMigratingNode(t *testing.T) {
	n := newNode(t)
	allow := sectionBlocks(t, calling, "js", 2)[1]
	for _, c := range []struct{ section, call, policies, now string }{
		{"rolling-rate-limiter", "allow", calling, allow},
		{"Redback", "allow", calling, allow},
		{"express-rate-limit", "get", "express-rate-limit", onlyBlock(t, "express-rate-limit", "js")},
		{"rate-limiter-flexible", "allow", calling, allow},
	} {
		t.Run(c.section, func(t *testing.T) {
			t.Parallel()
			old := strings.ReplaceAll(oldCode(t, strings.ToLower(c.section)+".mjs"), "127.0.0.1:6379", n.redis)
			compare(t, c.section, attack(func(key string, at []int64) (passed []int64) {
				var calls []call
				for _, at := range at {
					calls = append(calls, call{at / 1000, c.call, []any{key}})
				}
				for i, result := range n.run(t, old, "", calls, "virtual") {
					if passes(result) {
						passed = append(passed, at[i])
					}
				}
				return passed
			}))
			compare(t, "Weir", attackLimiter(t, newLimiter(t, filePolicy(t, c.policies, "search"))))

			address := n.serve(t, onlyBlock(t, c.policies, "yaml"))
			results := n.runNew(t, address, c.now, slices.Repeat([]call{{0, c.call, []any{"192.0.2.1"}}}, attempts))
			twentyPass(t, true, false, func(i int) bool { return passes(results[i]) })
		})
	}
	t.Run("Redback's count", n.testRedbackCount)
	t.Run("envoyproxy/ratelimit", n.testEnvoy)
	t.Run("redis-cell", n.testRedisCell)
}

// passes reports whether the result of an attempt in Node is a grant.
func passes(result json.RawMessage) bool {
	return string(result) == "true" || string(result) == "200"
}

// testRedbackCount counts by Redback and by Weir, and once more a lap of the ring later.
func (n *node) testRedbackCount(t *testing.T) {
	t.Parallel()
	old := strings.ReplaceAll(oldCode(t, "redback.mjs"), "127.0.0.1:6379", n.redis)
	add := call{0, "add", []any{"ann"}}
	calls := []call{add, add, add, {0, "count", []any{"ann", 20}}}
	const lap = 10 * time.Minute

	got := n.run(t, old, "", append(calls, call{lap.Milliseconds(), "count", []any{"ann", 20}}), "virtual")
	if string(got[3]) != "3" || string(got[4]) != "3" {
		t.Errorf("Redback counts %s of 3, and %s after a lap, want 3 and 3", got[3], got[4])
	}
	limit := weir.Per(1_000, lap, "user")
	limit.Cells = 120
	limiter := newLimiter(t, weir.Policy{Name: "failed-logins", Limits: []weir.Limit{limit}})
	start := time.Date(2026, time.January, 5, 9, 0, 0, 0, time.UTC)
	if _, err := limiter.At(start).Record(t.Context(), weir.K("ann"), 3); err != nil {
		t.Fatal(err)
	}
	counted, err := limiter.At(start).Count(t.Context(), weir.K("ann"), "limit", 20*time.Second)
	if err != nil || counted != 3 {
		t.Errorf("Weir counts %d of 3, %v", counted, err)
	}
	after, err := limiter.At(start.Add(lap)).Count(t.Context(), weir.K("ann"), "limit", 20*time.Second)
	if err != nil || after != 0 {
		t.Errorf("after a lap Weir counts %d, %v; want 0", after, err)
	}
	t.Logf("Redback counts %s and Weir %d of the last 20 s, ten minutes after three failures", got[4], after)
}

// testEnvoy sends 25 requests to the command of the page with a configuration.
func (n *node) testEnvoy(t *testing.T) {
	t.Parallel()
	const section = "envoyproxy/ratelimit"
	command := onlyBlock(t, section, "sh")
	dir := t.TempDir()
	write(t, filepath.Join(dir, "web.yaml"),
		"domain: web\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 20}}]\n")
	command = strings.NewReplacer("weir serve", "exec "+n.weir+" serve --listen 127.0.0.1:0 --store-budget 30s", "/srv/ratelimit/config", dir,
		"127.0.0.1:8081", "unix:"+dir+"/rls.sock", "127.0.0.1:6379", n.redis).Replace(command)
	program.Serve(t, exec.Command("bash", "-euo", "pipefail", "-c", command))
	conn, err := grpc.NewClient("unix:"+dir+"/rls.sock", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := &pb.RateLimitRequest{Domain: "web", Descriptors: []*common.RateLimitDescriptor{{Entries: []*common.RateLimitDescriptor_Entry{{Key: "user", Value: "ann"}}}}}
	twentyPass(t, pb.RateLimitResponse_OK, pb.RateLimitResponse_OVER_LIMIT, func(int) pb.RateLimitResponse_Code {
		rateLimitResponse, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return rateLimitResponse.OverallCode
	})
}

// testRedisCell runs the new commands of the page 25 times. The module itself is not
// installed.
func (n *node) testRedisCell(t *testing.T) {
	t.Parallel()
	check, dir := onlyBlock(t, "redis-cell", "sh"), t.TempDir()
	write(t, filepath.Join(dir, "weir.yaml"), onlyBlock(t, calling, "yaml"))
	serve := exec.Command("bash", "-euc", strings.NewReplacer("weir serve", "exec "+n.weir+" serve --listen 127.0.0.1:0", "127.0.0.1:7073", "unix:resp.sock").Replace(onlyBlock(t, calling, "sh")))
	serve.Dir = dir
	program.Serve(t, serve)
	twentyPass(t, "1", "0", func(int) string {
		first, _, _ := strings.Cut(shell(t, dir, strings.ReplaceAll(check, "-p 7073", "-s resp.sock")), "\n")
		return first
	})
}

// attempts is the number of attempts at a limit of 20 a minute.
const attempts = 25

// twentyPass fails the test unless the answers to the first 20 attempts are pass, and the others
// deny.
func twentyPass[T comparable](t *testing.T, pass, deny T, answer func(i int) T) {
	t.Helper()
	for i := range attempts {
		want := pass
		if i >= 20 {
			want = deny
		}
		if got := answer(i); got != want {
			t.Errorf("attempt %d of %d: %v, want %v", i+1, attempts, got, want)
		}
	}
}

// node has the packages of the old code, and weir and a Redis for its tests.
type node struct {
	dir   string // with node_modules
	weir  string // the program
	redis string // address
}

// newNode installs the packages of testdata/migrating from npm's cache or registry.
func newNode(t *testing.T) *node {
	t.Helper()
	needs.Program(t, "node")
	dir := needs.Modules(t, "testdata/migrating")
	client := filepath.Join(dir, "node_modules", "weirlimit")
	for _, part := range []string{"lib", "index.js", "index.mjs", "express.js", "express.mjs", "package.json"} {
		copyClient(t, filepath.Join(root, "clients", "node", part), filepath.Join(client, part))
	}
	return &node{dir: dir, weir: program.Path(t), redis: redistest.Start(t).Addr}
}

// copyClient copies a file, or a directory of files.
func copyClient(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	if info.IsDir() {
		must.Do(t, os.CopyFS(to, os.DirFS(from)))
		return
	}
	must.Do(t, os.MkdirAll(filepath.Dir(to), 0o777))
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	must.Do(t, os.WriteFile(to, text, 0o666))
}

// serve runs weir with a policy file until the test ends, and returns the address for Redis clients.
func (n *node) serve(t *testing.T, file string) (address string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weir.yaml")
	write(t, path, file)
	return program.Serve(t, exec.Command(n.weir, "serve", "--policies", path, "--listen", "127.0.0.1:0", "--resp-listen", "127.0.0.1:0")).RESP
}

// A call is one of testdata/migrating/calls.mjs.
type call struct {
	At   int64  `json:"at"` // milliseconds since the start
	Name string `json:"call"`
	Args []any  `json:"args"`
}

// runNew runs new code of the page on the service at the address.
func (n *node) runNew(t *testing.T, address, module string, calls []call) []json.RawMessage {
	t.Helper()
	patient := "redis://" + address + "', timeout: 30_000, totalTimeout: 60_000" // a busy machine is slow
	ours := strings.Replace(sectionBlocks(t, calling, "js", 2)[0], "redis://127.0.0.1:7073'", patient, 1)
	return n.run(t, module, ours, calls, "real")
}

// run calls functions of a module in a new directory, whose modules find the packages and weir.mjs,
// and returns their results.
func (n *node) run(t *testing.T, module, weir string, calls []call, mode string) (results []json.RawMessage) {
	t.Helper()
	dir, err := os.MkdirTemp(n.dir, "module")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "limiter.mjs")
	write(t, path, module)
	write(t, filepath.Join(dir, "weir.mjs"), weir)
	cmd := exec.Command("node", "--no-warnings", "calls.mjs", path, mode)
	cmd.Dir = n.dir
	text, err := json.Marshal(calls)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = bytes.NewReader(text)
	out := output(t, cmd)
	if err := json.Unmarshal([]byte(out), &results); err != nil || len(results) != len(calls) {
		t.Fatalf("%d results of %d calls, %v\n%s\n%s", len(results), len(calls), err, module, out)
	}
	return results
}

// TestMigratingScripts runs the scripts that the page describes on a real server in virtual time.
func TestMigratingScripts(t *testing.T) {
	// A script that a busy machine delays must not be sent again.
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr, ReadTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })

	for i, name := range []string{"fixed-window script", "list script", "sorted-set script"} {
		script := redis.NewScript(oldCode(t, strings.TrimSuffix(name, " script")+".lua"))
		compare(t, name, attack(func(key string, at []int64) []int64 {
			key = name + key
			return passing(at, func(at int64) bool {
				if i == 0 && at >= minute && at%minute == 0 {
					client.Del(t.Context(), key) // the server's own expiry takes a real minute
				}
				n, err := script.Run(t.Context(), client, []string{key}, 20, minute/1000, at/1000).Int()
				if err != nil {
					t.Fatal(err)
				}
				return n == 1
			})
		}))
	}

	// The clock of the test stands in for the server's.
	text := oldCode(t, "hierarchical.lua")
	virtual := strings.Replace(text, "redis.call('TIME')", "{ARGV[4], ARGV[5]}", 1)
	if virtual == text {
		t.Fatal("the hierarchical script does not call TIME")
	}
	script := redis.NewScript(virtual)
	const start = 1_767_603_600 // seconds
	compare(t, "hierarchical Lua script", attack(func(category string, at []int64) []int64 {
		return passing(at, func(at int64) bool {
			keys := []string{"all" + category, category}
			n, err := script.Run(t.Context(), client, keys, 100, 20, 60, start+at/second, at%second).Int()
			if err != nil {
				t.Fatal(err)
			}
			return n == 1
		})
	}))
}

// passing returns the instants at which an attempt passes.
func passing(at []int64, allow func(at int64) bool) (passed []int64) {
	for _, at := range at {
		if allow(at) {
			passed = append(passed, at)
		}
	}
	return passed
}
