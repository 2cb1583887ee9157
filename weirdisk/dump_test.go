package weirdisk

import (
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// TestDump: a dump has a history with entries, a bucket, a block, an operation and a reservation,
// each with its own fields.
func TestDump(t *testing.T) {
	dir := t.TempDir()
	e, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	at := time.UnixMicro(1_000_000)
	allow := func(p weir.Policy, key weir.Key, n int64, id string) {
		t.Helper()
		limiter, err := weir.New(p, weir.WithEngine(e))
		if err != nil {
			t.Fatal(err)
		}
		l := limiter.At(at)
		if _, err := l.Decide(t.Context(), key, weir.Request{N: n, ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	bucket := weir.Limit{Kind: weir.KindBucket, Max: 4, Window: 6 * time.Second, Burst: 10}
	allow(weir.Policy{Name: "a", Limits: []weir.Limit{weir.PerHour(9, "user")}}, weir.K("ann"), 3, "")
	allow(weir.Policy{Name: "b", Limits: []weir.Limit{bucket}}, weir.K(), 2, "order-7")
	held := []weir.Limit{{Name: "held", Max: 9, Window: time.Hour, Block: time.Minute}}
	limiter, err := weir.New(weir.Policy{Name: "c", Limits: held}, weir.WithEngine(e))
	if err != nil {
		t.Fatal(err)
	}
	reserving := limiter.Compiled()
	calls := []engine.Call{
		{Rules: reserving, N: 5, ID: "job", TTL: 1_000_000, At: 1_000_000, Given: true},
		{Rules: reserving, Op: engine.Settle, N: 3, ID: "job", At: 1_500_000, Given: true},
		{Rules: reserving, Op: engine.Probe, N: 10, At: 2_000_000, Given: true},
	}
	e.Do(t.Context(), calls)
	for _, c := range calls {
		must.Do(t, c.Err)
	}
	allow(weir.Policy{Name: "d", Limits: []weir.Limit{weir.PerHour(2)}}, weir.K(), 2, "")
	limiter, err = weir.New(weir.Policy{Name: "d", Limits: []weir.Limit{weir.PerHour(2)}}, weir.WithEngine(e))
	if err != nil {
		t.Fatal(err)
	}
	waiting := limiter.At(at)
	if _, err := waiting.Decide(t.Context(), weir.K(), weir.Request{N: 1, ID: "mail", MaxWait: time.Hour}); err != nil {
		t.Fatal(err)
	}
	must.Do(t, e.Close())

	var got []string
	zero := regexp.MustCompile(` [A-Za-z]+:(0|\[\]|false)?( |})`)
	must.Do(t, Dump(dir, func(i *Item) error {
		text := fmt.Sprintf("%+v", *i)
		for zero.MatchString(text) { // fields that the kind of item lacks
			text = zero.ReplaceAllString(text, "$2")
		}
		got = append(got, text)
		return nil
	}))
	slices.Sort(got)
	want := []string{
		"{Policy:a Dimensions:[user] Values:[ann] Limit:limit Kind:Rolling Newest:1000000 Entries:[{At:1000000 Units:3}]}",
		"{Policy:b Kind:Rolling ID:order-7 Units:2 Granted:2 At:1000000 Until:61000000}",
		"{Policy:b Limit:limit Kind:Bucket Newest:1000000 Max:1 Window:1500000 Full:4000000}",
		"{Policy:c Kind:Rolling ID:job Units:5 Granted:5 At:1000000 Until:61500000 Reserved:5 ExpiresAt:2000000 Settled:true Actual:3}",
		"{Policy:c Limit:held Kind:Rolling Newest:1000000 Entries:[{At:1000000 Units:3}]}",
		"{Policy:c Limit:held Kind:Rolling Newest:2000000 BlockedUntil:62000000}",
		"{Policy:d Kind:Rolling ID:mail Units:1 Granted:1 At:1000000 Start:3601000000 Until:7201000000}",
		"{Policy:d Limit:limit Kind:Rolling Newest:1000000 Entries:[{At:1000000 Units:2}] Ahead:[{At:3601000000 Units:1}]}",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
