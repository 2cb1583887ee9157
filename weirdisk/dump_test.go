package weirdisk

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// TestDump: a dump has a history with entries, a bucket and an operation, each with its own
// fields.
func TestDump(t *testing.T) {
	dir := t.TempDir()
	e := must.Get(Open(dir))(t)
	at := time.UnixMicro(1_000_000)
	allow := func(p weir.Policy, key weir.Key, n int64, id string) {
		t.Helper()
		l := must.Get(weir.New(p, weir.WithEngine(e)))(t).At(at)
		must.Get(l.Decide(t.Context(), key, weir.Request{N: n, ID: id}))(t)
	}
	bucket := weir.Limit{Kind: weir.KindBucket, Max: 4, Window: 6 * time.Second, Burst: 10}
	allow(weir.Policy{Name: "a", Limits: []weir.Limit{weir.PerHour(9, "user")}}, weir.K("ann"), 3, "")
	allow(weir.Policy{Name: "b", Limits: []weir.Limit{bucket}}, weir.K(), 2, "order-7")
	must.Do(t, e.Close())

	var got []string
	must.Do(t, Dump(dir, func(i *Item) error { got = append(got, fmt.Sprintf("%+v", *i)); return nil }))
	slices.Sort(got)
	want := []string{
		"{Policy:a Dimensions:[user] Values:[ann] Limit:limit Kind:Rolling Newest:1000000 Entries:[{At:1000000 Units:3}] " +
			"Max:0 Window:0 Full:0 ID: Op:0 Units:0 Granted:0 At:0 Until:0}",
		"{Policy:b Dimensions:[] Values:[] Limit: Kind:Rolling Newest:0 Entries:[] " +
			"Max:0 Window:0 Full:0 ID:order-7 Op:0 Units:2 Granted:2 At:1000000 Until:61000000}",
		"{Policy:b Dimensions:[] Values:[] Limit:limit Kind:Bucket Newest:1000000 Entries:[] " +
			"Max:1 Window:1500000 Full:4000000 ID: Op:0 Units:0 Granted:0 At:0 Until:0}",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
