package weirgrpc

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir/internal/testkit/assert"
)

// TestBlockedCall: a denial during a block has the rest of the block as its wait, and names the
// limit that blocks.
func TestBlockedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, nil, perTenant(1).Blocking(3*time.Hour))
		by := By{"tenant": func(context.Context, *Call) (string, error) { return "acme", nil }}
		intercept := Unary(l, by)
		call := func() *status.Status {
			handler := func(context.Context, any) (any, error) { return nil, nil }
			_, err := intercept(t.Context(), nil, &grpc.UnaryServerInfo{}, handler)
			return status.Convert(err)
		}
		assert.Equal(t, call().Code(), codes.OK, "the first call")
		call() // begins the block
		time.Sleep(time.Hour)
		denied := call()
		assert.Equal(t, denied.Code(), codes.ResourceExhausted, "during the block")
		var wait time.Duration
		limit := ""
		for _, detail := range denied.Details() {
			switch d := detail.(type) {
			case *errdetails.RetryInfo:
				wait = d.RetryDelay.AsDuration()
			case *errdetails.QuotaFailure:
				limit = d.Violations[0].QuotaId
			}
		}
		assert.Equal(t, wait, 2*time.Hour, "RetryInfo")
		assert.Equal(t, limit, l.Compiled().Limits[0].Name, "QuotaFailure")
		time.Sleep(2 * time.Hour)
		assert.Equal(t, call().Code(), codes.OK, "after the block")
	})
}
