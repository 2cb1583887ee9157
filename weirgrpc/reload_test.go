package weirgrpc

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/policy"
)

// TestReloadThatNoLongerFitsIsInternal: a reload of the file may change the dimensions or remove
// the policy. No client can mend that, so it is not INVALID_ARGUMENT, also with AllowWhenDown.
// The log has the policy and the next step.
func TestReloadThatNoLongerFitsIsInternal(t *testing.T) {
	parse := func(policies string) *policy.File {
		return must.Get(policy.Parse("weir.yaml", []byte("version: 1\npolicies:\n"+policies)))(t)
	}
	for policies, want := range map[string]string{
		"  calls: {limit: 9 per minute per user}\n":   `no dimension \"tenant\"`,
		"  other: {limit: 9 per minute per tenant}\n": `no policy \"calls\"`,
	} {
		var log bytes.Buffer
		set := must.Get(enforce.New(parse("  calls: {limit: 9 per minute per tenant}\n"), weir.NewMemory()))(t)
		intercept := Unary(set.Rule("calls"), byTenant, AllowWhenDown(), ErrorLog(slog.New(slog.NewTextHandler(&log, nil))))
		conn := serveWith(t, intercept)
		if _, err := once(as("acme"), conn, "hi"); err != nil {
			t.Fatal(err)
		}
		must.Do(t, set.Reload(parse(policies)))
		_, err := once(as("acme"), conn, "hi")
		if s := status.Convert(err); s.Code() != codes.Internal || strings.Contains(s.Message(), "tenant") {
			t.Errorf("after the reload %v, want INTERNAL without the cause", err)
		}
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, want) || !strings.Contains(got, "policy=calls") || !strings.Contains(got, "restart it") {
			t.Errorf("the log has %q; want one line with %q and the next step", got, want)
		}
	}
}
