package weirgrpc

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// rule is the rule of a policy file that a reload replaces. The rules of package enforce are
// those of its tests, because their YAML would be a dependency of this module.
type rule struct{ weir.Decider }

// gone is a rule whose policy the file no longer has.
type gone struct{}

var errGone = errors.New(`weir: no policy "calls"`)

func (gone) Compiled() *engine.Compiled { return nil }
func (gone) CheckNames([]string) error  { return errGone }
func (gone) DecideFor(context.Context, map[string]string, weir.Request) (o weir.Outcome, err error) {
	return o, errGone
}
func (gone) ReserveFor(context.Context, map[string]string, weir.Request) (r *weir.Reservation, o weir.Outcome, err error) {
	return r, o, errGone
}

// TestReloadThatNoLongerFitsIsInternal: a reload of the file may change the dimensions or remove
// the policy. No client can mend that, so it is not INVALID_ARGUMENT, also with AllowWhenDown.
// The log has the policy and the next step.
func TestReloadThatNoLongerFitsIsInternal(t *testing.T) {
	perUser := weir.PerHour(9, "user")
	for want, next := range map[string]weir.Decider{
		`no dimension \"tenant\"`: newLimiter(t, nil, perUser),
		`no policy \"calls\"`:     gone{},
	} {
		var log bytes.Buffer
		r := &rule{newLimiter(t, nil, perTenant(9))}
		conn := serveWith(t, Unary(r, byTenant, AllowWhenDown(), ErrorLog(slog.New(slog.NewTextHandler(&log, nil)))))
		if _, err := once(as("acme"), conn, "hi"); err != nil {
			t.Fatal(err)
		}
		r.Decider = next
		_, err := once(as("acme"), conn, "hi")
		if s := status.Convert(err); s.Code() != codes.Internal || strings.Contains(s.Message(), "tenant") {
			t.Errorf("after the reload %v, want INTERNAL without the cause", err)
		}
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, want) || !strings.Contains(got, "policy=calls") || !strings.Contains(got, "restart") {
			t.Errorf("the log has %q; want one line with %q and the next step", got, want)
		}
	}
}
