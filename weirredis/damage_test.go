package weirredis_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

// damages is the number of damages of each form of a history.
const damages = 300

// TestDamageIsAnErrorOrHarmless flips bits and replaces bytes of stored histories of all forms, in
// headers and chunks, and makes calls while all, some or no entries count. Each call returns soon,
// either with a possible answer or with the error that names the key. An error changes nothing.
func TestDamageIsAnErrorOrHarmless(t *testing.T) {
	cells, fixed, first, hour, hold := perUser(400, time.Hour), perUser(400, time.Hour), perUser(400, time.Hour), perUser(400, 0), perUser(400, 0)
	cells.Cells, fixed.Kind, first.Kind, hold.Kind = 90, weir.Fixed, weir.FixedFromFirst, weir.Concurrency
	hold.MaxHold = time.Hour
	hour.Kind, hour.Period = weir.Fixed, weir.Hour
	for _, f := range []struct {
		name   string
		limit  weir.Limit
		mode   weir.Mode
		grants int
		chunk  int // bytes of entries
	}{
		{"small", perUser(40, time.Hour), weir.AllOrNothing, 12, 96},
		{"chunks", perUser(400, time.Hour), weir.AllOrNothing, 120, 96},
		{"short chunks", perUser(400, time.Hour), weir.AllOrNothing, 40, 9},
		{"counted", perUser(40, time.Hour), weir.CountDenied, 60, 20},
		{"partial", perUser(40, time.Hour), weir.Partial, 60, 20},
		{"cells", cells, weir.AllOrNothing, 60, 9},
		{"fixed", fixed, weir.AllOrNothing, 60, 9},
		{"first", first, weir.AllOrNothing, 60, 9},
		{"period", hour, weir.AllOrNothing, 60, 9},
		{"hold", hold, weir.AllOrNothing, 60, 20},
		{"bucket", bucket(7, time.Second, 900), weir.AllOrNothing, 60, 96},
		{"counted bucket", bucket(1_000_003, time.Hour, 40), weir.CountDenied, 60, 96},
	} {
		t.Run(f.name, func(t *testing.T) {
			s := redistest.Start(t) // a server of its own, because a damage may block it
			e := newEngine(t, s.Conn(t), weirredis.WithChunks(f.chunk), weirredis.DenialCacheTTL(0))
			d := damaged{s: s, e: e, p: limiter(t, e, "damaged", f.mode, f.limit).Compiled(), r: rand.New(rand.NewPCG(1, 9))}
			d.key = weirredis.Keys(d.p, weir.K("u"), false)[0]
			for i := range f.grants {
				d.at = nine.Add(time.Duration(i) * time.Minute / 2)
				if _, err := d.do(engine.Call{N: []int64{1, 1, 1, 5}[i%4]}); err != nil {
					t.Fatal(err)
				}
			}
			whole, newest := s.Must(t, "DUMP", d.key), d.at
			for i := range damages {
				s.Must(t, "RESTORE", d.key, "0", whole, "REPLACE")
				d.damage(t)
				d.at = newest.Add(pick(d.r, 0, time.Minute, 50*time.Minute, 70*time.Minute, 48*time.Hour, -10*time.Minute, -48*time.Hour))
				d.check(t, i)
				d.check(t, i) // reads the header that the first call wrote
			}
		})
	}
}

// damaged is a history that is damaged again and again.
type damaged struct {
	s    *redistest.Server
	e    *weirredis.Engine
	p    *engine.Compiled
	key  string
	r    *rand.Rand
	at   time.Time
	done string // the damage
}

// do makes a call at d.at. It is soon cancelled.
func (d *damaged) do(c engine.Call) (engine.Result, error) {
	c.Rules, c.Key, c.At, c.Given = d.p, weir.K("u"), d.at.UnixMicro(), true
	soon, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	calls := []engine.Call{c}
	d.e.Do(soon, calls)
	return calls[0].Result, calls[0].Err
}

// damage changes a few bits or bytes of one field.
func (d *damaged) damage(t *testing.T) {
	field := "h"
	if all := d.s.List(t, "HKEYS", d.key); d.r.IntN(3) == 0 {
		field = all[d.r.IntN(len(all))]
	}
	text := []byte(d.s.Must(t, "HGET", d.key, field))
	place := func() int { return d.r.IntN(min(len(text), pick(d.r, 16, 62, 200))) } // mostly in the numbers before the entries
	was := fmt.Sprintf("%x", text)
	switch d.r.IntN(6) {
	case 0, 1:
		text[place()] ^= 1 << d.r.IntN(8)
	case 2:
		for range 3 {
			text[place()] ^= 1 << d.r.IntN(8)
		}
	case 3:
		text[place()] = pick(d.r, 0, 0xff, byte(d.r.IntN(256)))
	case 4:
		begin := place()
		for i := begin; i < min(begin+7, len(text)); i++ {
			text[i] = pick(d.r, 0, 0xff, byte(d.r.IntN(256)))
		}
	case 5:
		text = text[:d.r.IntN(len(text))]
	}
	d.done = fmt.Sprintf("field %s was %s, is %x", field, was, text)
	d.s.Must(t, "HSET", d.key, field, string(text))
}

// check makes a random call, and fails the test unless its outcome is permitted.
func (d *damaged) check(t *testing.T, i int) {
	t.Helper()
	c := engine.Call{N: pick[int64](d.r, 1, 1, 1, 7, 300)}
	switch d.r.IntN(8) {
	case 0:
		c.Op, c.States = engine.Peek, make([]engine.State, 1)
	case 1:
		c.States = make([]engine.State, 1)
	case 2:
		c.Op = engine.Record
	case 3:
		c.Op, c.From = engine.Refund, engine.Oldest
	case 4:
		c.Op, c.From = engine.Refund, nine.Add(time.Duration(d.r.IntN(60))*time.Minute/2).UnixMicro()
	case 5:
		if d.p.Limits[0].Kind != engine.Bucket { // which has no counts
			c.Op, c.From = engine.Count, time.Hour.Microseconds()
		}
	}
	before := d.fields(t)
	got, err := d.do(c)
	about := fmt.Sprintf("damage %d (seed 1, 9), %s\nop %d of %d from %d at %d: got %+v, %v", i, d.done, c.Op, c.N, c.From, d.at.UnixMicro(), got, err)
	switch {
	case errors.Is(err, weir.ErrOverflow) && c.Op == engine.Record:
	case err != nil && (!errors.Is(err, weirredis.ErrState) || !strings.Contains(err.Error(), strconv.QuoteToASCII(d.key))):
		t.Fatalf("%s; want an answer, or ErrState with the key", about)
	case err == nil && (got.Granted < 0 || got.Granted > c.N && c.Op != engine.Count || got.Granted > 2*engine.MaxUnits || got.Remaining > d.p.Limits[0].Capacity || got.RetryAfter < engine.Never || got.ResetAfter < 0):
		t.Fatalf("%s; want a possible answer", about)
	}
	if err != nil && !maps.Equal(d.fields(t), before) {
		t.Fatalf("%s: it was changed", about)
	}
}

// fields returns what is stored.
func (d *damaged) fields(t *testing.T) map[string]string {
	m, all := map[string]string{}, d.s.List(t, "HGETALL", d.key)
	for i := 0; i < len(all); i += 2 {
		m[all[i]] = all[i+1]
	}
	return m
}
