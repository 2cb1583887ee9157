package weirredis_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

// TestInspectNow: without an instant a key is inspected by the server's clock, on every server, and
// one of no history is empty.
func TestInspectNow(t *testing.T) {
	redistest.OnEachVersion(t, func(t *testing.T, v redistest.Version) {
		e := newEngine(t, v.Shared(t).Conn(t))
		l := limiter(t, e, "inspected", weir.AllOrNothing, perUser(5, time.Hour), weir.Limit{Name: "all", Max: 9, Window: time.Hour})
		inspect := func(user string) (engine.Call, []engine.History) {
			c := engine.Call{Rules: l.Compiled(), Key: weir.K(user), Op: engine.Peek, N: 1, States: make([]engine.State, 2)}
			var h []engine.History
			c.Histories = &h
			c.Result = mustDo(t, e, c)
			return c, h
		}
		v.Shared(t).Must(t, append([]string{"DEL"}, weirredis.Keys(l.Compiled(), weir.K("ann"), false)...)...)
		d := mustAllowN(t, l, weir.K("ann"), 2)
		c, h := inspect("ann")
		want := []engine.Entry{{At: d.At.UnixMicro(), Units: 2}}
		assert.Equal(t, fmt.Sprint(h[0].Entries, h[1].Entries), fmt.Sprint(want, want), "entries")
		assert.Equal(t, c.Result.Remaining, 3, "remaining")
		if late := c.Result.At.Sub(d.At); late < 0 || late > time.Minute {
			t.Errorf("inspected %v after the attempt", late)
		}
		_, h = inspect("bob")
		assert.Equal(t, fmt.Sprint(h[0].Entries, h[1].Entries), fmt.Sprint([]engine.Entry{}, want), "entries of another user")
	})
}
