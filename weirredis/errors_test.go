package weirredis_test

import (
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
)

// TestErrorsOfOtherOperationsNameBoth: an id of another operation is rejected with what was stored
// and what was sent.
func TestErrorsOfOtherOperationsNameBoth(t *testing.T) {
	rules := limiter(t, newEngine(t, redisConn(t)), "ids", weir.AllOrNothing, perUser(1000, time.Hour)).Compiled()
	e := newEngine(t, redisConn(t))
	call := func(op engine.Op, n, from int64) engine.Call {
		return engine.Call{Op: op, Rules: rules, Key: weir.K("u"), N: n, From: from, ID: "id", At: nine.UnixMicro(), Given: true}
	}
	mustDo(t, e, engine.Call{Op: engine.Reset, Rules: rules, Key: weir.K("u")})
	record := call(engine.Record, 9, 0)
	record.ID = ""
	mustDo(t, e, record)
	mustDo(t, e, call(engine.Refund, 5, nine.UnixMicro()))
	for _, c := range []struct {
		call engine.Call
		text string
	}{
		{call(engine.Refund, 6, nine.UnixMicro()), "it names a refund of 5 units, and now a refund of 6 units; give each"},
		{call(engine.Refund, 5, 1), "it names a refund of 5 units at one instant, and now a refund of 5 units at another; give each"},
		{call(engine.Record, 5, 0), "it names a refund of 5 units, and now a record of 5 units; give each"},
		{call(engine.Attempt, 1, 0), "it names a refund of 5 units, and now an attempt of 1 unit; give each"},
	} {
		_, err := do(e, c.call)
		assert.Error(t, err, engine.ErrInput, c.text)
	}
}

// TestOverflowNamesTheUnitsOfTheLimit: an overflow names the units that count in the limit, and
// those that the call adds there.
func TestOverflowNamesTheUnitsOfTheLimit(t *testing.T) {
	e := newEngine(t, redisConn(t))
	user := perUser(1000, time.Hour)
	cost := user
	cost.Cost = 9
	for _, c := range []struct {
		about string
		mode  weir.Mode
		limit weir.Limit
		text  string
	}{
		{"units", weir.AllOrNothing, user, `limit "user" counts 2251799813685240 units; with 2000 more it would pass 2251799813685247`},
		{"cost", weir.AllOrNothing, cost, "with 9 more it"},
		{"counted", weir.CountDenied, user, "with 1000 more it"},
	} {
		const name = "overflow"
		full := limiter(t, e, name, weir.AllOrNothing, user).Compiled()
		mustDo(t, e, engine.Call{Op: engine.Reset, Rules: full, Key: weir.K("u")})
		mustDo(t, e, engine.Call{Op: engine.Record, Rules: full, Key: weir.K("u"), N: engine.MaxUnits - 7})
		rules := limiter(t, e, name, c.mode, c.limit).Compiled()
		_, err := do(e, engine.Call{Op: engine.Record, Rules: rules, Key: weir.K("u"), N: 2000})
		assert.Error(t, err, engine.ErrOverflow, c.text)
	}
}
