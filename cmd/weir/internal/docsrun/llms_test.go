//go:build unix

package docsrun_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/markdown"
	"github.com/weirlimit/weir/internal/testkit/program"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirhttp"
	"github.com/weirlimit/weir/weirredis"
	"github.com/weirlimit/weir/weirredis/rueidisconn"
)

// The functions whose names end in Recipe have the recipes in Go of llms.txt.

const llmsPage = "llms.txt"

// TestLlmsGoIsThisFile: the Go code of llms.txt is that of this file.
func TestLlmsGoIsThisFile(t *testing.T) {
	file := lines(read(t, "cmd/weir/internal/docsrun/llms_test.go"))
	blocks := markdown.Texts(read(t, llmsPage), "go")
	if len(blocks) != 7 {
		t.Errorf("%s has %d blocks of Go, want 7", llmsPage, len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(file, lines(block)) {
			t.Errorf("no test runs this block of %s:\n%s", llmsPage, block)
		}
	}
}

// TestLlmsClients: the code for Node and Python is that of the manuals, which the tests of the
// clients run.
func TestLlmsClients(t *testing.T) {
	llms := read(t, llmsPage)
	js, python := markdown.Texts(llms, "js"), markdown.Texts(llms, "python")
	if first := markdown.Texts(read(t, "docs/node.md"), "js")[0]; !slices.Equal(js, []string{first}) {
		t.Errorf("%s has for Node\n%s\nand docs/node.md begins with\n%s", llmsPage, js, first)
	}
	_, limiter, _ := strings.Cut(read(t, "docs/python.md"), "```python limiter.py\n")
	limiter, _, _ = strings.Cut(limiter, "```")
	if !slices.Equal(python, []string{limiter}) {
		t.Errorf("%s has for Python\n%s\nand limiter.py of docs/python.md is\n%s", llmsPage, python, limiter)
	}
}

// TestLlmsService runs the commands of llms.txt: five requests of an address pass in a minute.
func TestLlmsService(t *testing.T) {
	page, dir := read(t, llmsPage), t.TempDir()
	write(t, filepath.Join(dir, "weir.yaml"), markdown.Texts(page, "yaml")[0])
	listen := strings.NewReplacer("weir serve", "exec "+program.Path(t)+" serve", "127.0.0.1:7070", "127.0.0.1:0")
	serve := exec.Command("bash", "-euc", listen.Replace(command(t, llmsPage, "--policies weir.yaml")))
	serve.Dir = dir
	address := program.Serve(t, serve).Main
	check := strings.NewReplacer("curl ", "curl -s ", "127.0.0.1:7070", address).Replace(command(t, llmsPage, "curl"))
	for i := range 6 {
		got := answers(t, shell(t, dir, check))
		if len(got) != 1 || got[0].Allowed != (i < 5) || !strings.Contains(got[0].text, `"retry_after_ms":`) {
			t.Fatalf("answer %d is %+v, want allowed %t", i+1, got, i < 5)
		}
	}
}

func firstRecipe(ctx context.Context) error {
	limiter, err := weir.New(weir.Policy{
		Name:   "push",
		Limits: []weir.Limit{weir.PerMinute(10, "teacher").Apart(3 * time.Second)},
	})
	if err != nil {
		return err
	}
	d, err := limiter.Allow(ctx, weir.K("ann")) // the teacher
	if err != nil {
		return err // no decision was possible
	}
	if !d.Allowed {
		return fmt.Errorf("too many pushes; try again in %v", d.RetryAfter)
	}
	return nil
}

func severalRecipe(ctx context.Context) error {
	limiter, err := weir.New(weir.Policy{
		Name:       "api",
		Dimensions: []string{"tenant", "user"}, // the order of the values in K
		Limits: []weir.Limit{
			weir.PerMinute(20, "tenant", "user").Named("user"),
			weir.PerDay(10_000, "tenant").Named("tenant"),
		},
	})
	if err != nil {
		return err
	}
	d, err := limiter.Allow(ctx, weir.K("acme", "ann"))
	if err != nil {
		return err
	}
	fmt.Println(d.Allowed, d.Limit) // the limit that denied, or ""
	return nil
}

func redisRecipe(addr string, policy weir.Policy, use func(*weir.Limiter)) error {
	conn, err := rueidisconn.New(rueidis.ClientOption{InitAddress: []string{addr}})
	if err != nil {
		return err
	}
	store, err := weirredis.New(conn)
	if err != nil {
		return err
	}
	engine := fallback.New(store, fallback.Deny) // in an outage; or fallback.Allow, fallback.Share
	limiter, err := weir.New(policy, weir.WithEngine(engine))
	if err != nil {
		return err
	}
	use(limiter)
	conn.Close()
	return nil
}

func middlewareRecipe(limiter *weir.Limiter, addr string, handler http.Handler) *http.Server {
	perIP := weirhttp.Middleware(limiter, weirhttp.By{ // the policy counts by "ip"
		"ip": weirhttp.ClientIP(weirhttp.TrustedProxies(netip.MustParsePrefix("10.0.0.0/24"))),
	})
	server := &http.Server{Addr: addr, Handler: perIP(handler)}
	return server
}

func waitRecipe(ctx context.Context, limiter *weir.Limiter, user weir.Key) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := limiter.Wait(ctx, user); err != nil {
		return err // of the deadline: a *weir.WaitError, and nothing is taken
	}
	return nil
}

func reserveRecipe(ctx context.Context, limiter *weir.Limiter, tenant weir.Key) error {
	answer, d, err := limiter.Reserve(ctx, tenant, weir.Request{N: 600, TTL: 5 * time.Minute})
	if err != nil {
		return err
	}
	if !d.Allowed {
		return fmt.Errorf("no tokens left; try again in %v", d.RetryAfter)
	}
	used := int64(250) // what the work has really used
	if err := answer.Commit(ctx, used); err != nil {
		return err
	}
	return nil
}

func onceRecipe(ctx context.Context, limiter *weir.Limiter, user weir.Key) error {
	id := "transfer-4711" // chosen before the first call
	d, err := limiter.AllowOnce(ctx, user, 50_000, id)
	if errors.Is(err, weir.ErrOutcomeUnknown) {
		d, err = limiter.AllowOnce(ctx, user, 50_000, id) // the same id and units
	}
	if err != nil {
		return err
	}
	fmt.Println(d.Allowed, d.Replayed)
	return nil
}

// TestLlmsInMemory runs the recipes that need no server, and meets their denials.
func TestLlmsInMemory(t *testing.T) {
	ctx, ann := t.Context(), weir.K("ann")
	tokens := newLimiter(t, weir.Policy{Name: "model", Limits: []weir.Limit{weir.PerHour(1000, "tenant")}})
	turns := newLimiter(t, weir.Policy{Name: "mail", Limits: []weir.Limit{weir.PerMinute(1, "user")}})
	cents := newLimiter(t, weir.Policy{Name: "transfers", Limits: []weir.Limit{weir.PerDay(80_000, "user")}})
	err := errors.Join(
		firstRecipe(ctx),
		severalRecipe(ctx),
		reserveRecipe(ctx, tokens, ann), // uses 250
		reserveRecipe(ctx, tokens, ann),
		waitRecipe(ctx, turns, ann),
		onceRecipe(ctx, cents, ann),
		onceRecipe(ctx, cents, ann), // replayed
	)
	if err != nil {
		t.Error(err)
	}

	denied := reserveRecipe(ctx, tokens, ann)
	if denied == nil || !strings.HasPrefix(denied.Error(), "no tokens left; try again in ") {
		t.Errorf("600 tokens after 500 of 1000: %v", denied)
	}
	var late *weir.WaitError
	if err := waitRecipe(ctx, turns, ann); !errors.As(err, &late) || !errors.Is(err, weir.ErrDeadline) {
		t.Errorf("a wait beyond the deadline: %v", err)
	}
	d, err := cents.Peek(ctx, ann, 0)
	if err != nil || d.Remaining != 30_000 {
		t.Errorf("%v, %v: want 30000 cents left, as charged once", d, err)
	}
}

// TestLlmsMiddleware: behind a trusted proxy the clients have a limit each.
func TestLlmsMiddleware(t *testing.T) {
	limiter := newLimiter(t, weir.Policy{Name: "search", Limits: []weir.Limit{weir.PerMinute(1, "ip")}})
	server := middlewareRecipe(limiter, "127.0.0.1:0", http.NotFoundHandler())
	for i, client := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.1"} {
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		request.RemoteAddr = "10.0.0.7:4711"
		request.Header.Set("X-Forwarded-For", client)
		response := httptest.NewRecorder()
		server.Handler.ServeHTTP(response, request)
		if denied := response.Code == http.StatusTooManyRequests; denied != (i == 2) {
			t.Errorf("request %d: status %d", i+1, response.Code)
		}
	}
}

// TestLlmsOnRedis runs the recipe as three processes would. On a crowded machine the store may be
// too slow for the fallback. The test then retries with another user.
func TestLlmsOnRedis(t *testing.T) {
	push := weir.Policy{Name: "push", Limits: []weir.Limit{weir.PerMinute(2, "user")}}
	address := redistest.Start(t).Addr
	var allowed []bool
	for user := 0; user < 50 && len(allowed) < 3; user++ {
		allowed = nil
		for range 3 {
			err := redisRecipe(address, push, func(limiter *weir.Limiter) {
				d, err := limiter.Allow(t.Context(), weir.K(fmt.Sprint("user", user)))
				if err == nil {
					allowed = append(allowed, d.Allowed)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if !slices.Equal(allowed, []bool{true, true, false}) {
		t.Errorf("three attempts are allowed %t, want two", allowed)
	}
}
