package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// fronts are the clients of all protocols for one weir serve.
type fronts struct {
	*process
	resp, rpc string // host:port
	grpc      *grpc.ClientConn
	http      *http.Client
}

// openFronts starts weir serve with all its listeners.
func openFronts(t *testing.T, args ...string) *fronts {
	t.Helper()
	return openFrontsWith(t, exec.Command("weir"), args...)
}

// openFrontsWith starts weir serve through a command that runs weir with the arguments
// after its own.
func openFrontsWith(t *testing.T, by *exec.Cmd, args ...string) *fronts {
	t.Helper()
	p := startServeWith(t, by, append([]string{"--admin-listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--resp-listen", "127.0.0.1:0"}, args...)...)
	banner := p.Output()
	at := func(listener string) string {
		found := regexp.MustCompile(`(?m)^ +` + listener + ` +(?:http://)?(127[0-9.:]+)`).FindStringSubmatch(banner)
		if found == nil {
			t.Fatalf("no address of %s in\n%s", listener, banner)
		}
		return found[1]
	}
	conn, err := grpc.NewClient(at("grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &fronts{process: p, resp: at("Redis clients"), rpc: at("grpc"), grpc: conn, http: &http.Client{Timeout: testTimeout}}
}

// These are the results of an attempt.
const (
	passes    = "passes"
	degraded  = "passes, degraded"
	denied    = "does not pass"
	undecided = "no decision"
)

// frontNames are the protocols of attempt.
var frontNames = []string{"check", "gate", "grpc", "resp"}

// attempt makes one attempt for the key 1 over a protocol. The result is one of those above, or
// another text for messages.
func (f *fronts) attempt(front, policy string) string { return f.attemptFor(front, policy, "1") }

// attemptFor makes one attempt for a key over a protocol.
func (f *fronts) attemptFor(front, policy, k string) string {
	switch front {
	case "check":
		return f.post("/v1/check", `{"policy":"`+policy+`","key":{"k":"`+k+`"}}`)
	case "gate":
		return f.post("/gate/"+policy+"?k="+k, "")
	case "grpc":
		return f.call(policy, k)
	}
	return f.command("WEIR.CHECK " + policy + " k=" + k + "\r\n")
}

func (f *fronts) post(path, body string) string {
	r, err := f.http.Post("http://"+f.addr+path, "application/json", strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	defer r.Body.Close()
	said, err := io.ReadAll(r.Body)
	switch {
	case err != nil:
		return err.Error()
	case r.StatusCode == 503:
		return undecided
	case r.StatusCode == 204:
		return passes
	case r.StatusCode == 200 && strings.HasPrefix(string(said), `{"allowed":false,`):
		return denied
	case r.StatusCode == 200 && strings.Contains(string(said), `"degraded":true`):
		return degraded
	case r.StatusCode == 200:
		return passes
	}
	return fmt.Sprintf("status %d: %s", r.StatusCode, said)
}

func (f *fronts) call(policy, k string) string {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	a, err := pb.NewRateLimitServiceClient(f.grpc).ShouldRateLimit(ctx, requestOf(policy, k))
	switch {
	case status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "no decision"):
		return undecided
	case err != nil:
		return err.Error()
	case a.OverallCode != pb.RateLimitResponse_OK:
		return a.OverallCode.String()
	case a.DynamicMetadata.GetFields()["degraded"].GetBoolValue():
		return degraded
	}
	return passes
}

// requestOf returns a request of Envoy for a value of the key k.
func requestOf(domain, k string) *pb.RateLimitRequest {
	return &pb.RateLimitRequest{Domain: domain, Descriptors: []*common.RateLimitDescriptor{{Entries: []*common.RateLimitDescriptor_Entry{{Key: "k", Value: k}}}}}
}

// command sends a command of one line over RESP.
func (f *fronts) command(line string) string {
	c, err := net.Dial("tcp", f.resp)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(testTimeout))
	if _, err := io.WriteString(c, line+"QUIT\r\n"); err != nil {
		return err.Error()
	}
	said, err := io.ReadAll(c)
	answer := strings.Split(string(said), "\r\n")
	switch {
	case err != nil:
		return err.Error()
	case strings.HasPrefix(answer[0], "-UNAVAILABLE "):
		return undecided
	case answer[0] == "*5" && answer[1] == ":0":
		return passes
	case answer[0] == "*9" && answer[1] == ":1" && answer[9] == ":1":
		return degraded
	case answer[0] == "*9" && answer[1] == ":1":
		return passes
	}
	return string(said)
}

// health reports whether /livez, /readyz and the gRPC health service all report a healthy process.
// It also returns the reason in /readyz why the store is down, and the metric weir_store_up.
func (f *fronts) health(t *testing.T) (healthy bool, down string, up int64) {
	t.Helper()
	live, _ := getPage(t, f.Admin, "/livez")
	ready, said := getPage(t, f.Admin, "/readyz")
	var told struct {
		Down string `json:"store_down"`
	}
	json.Unmarshal([]byte(said), &told)
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	serves, err := grpc_health_v1.NewHealthClient(f.grpc).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	healthy = live == 200 && ready == 200 && err == nil && serves.Status == grpc_health_v1.HealthCheckResponse_SERVING
	return healthy, told.Down, metric(t, f.Admin, "weir_store_up")
}
