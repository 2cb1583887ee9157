package envoy

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/cmd/weir/internal/testkit/enginetest"
	"github.com/weirlimit/weir/internal/testkit/redistest"
)

// Histories in different slots of a Redis Cluster are decided in steps of their own. The
// answers are the same.
func TestClusterDecidesHistoriesSeparately(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t)
	e, conn := enginetest.On(t, nodes.Addrs()...)
	if !conn.Clustered() {
		t.Fatal("the engine did not detect the Cluster")
	}
	p := connect(t, newClock(e), parse(t, hitsConfig))
	for i := range 4 {
		p.wants(fmt.Sprintf("OK | OK %d/10 1m0s | OK %d/5 1m0s", 9-i, 4-i), "a=1", "b=1")
	}
	p.wants("OK | OK 0/5 1m0s", "b=1")
	p.wants("OVER_LIMIT | OK 6/10 1m0s | OVER_LIMIT 0/5 1m0s", "a=1", "b=1")
	p.wants("OK | OK 5/10 1m0s", "a=1")
	p.wants("OK | OK 0/10 1m0s", "a=1 hits:5")
	p.wants("OVER_LIMIT | OVER_LIMIT 0/10 1m0s | OK 5/5 0s", "a=1", "b=2")
	p.wants("OK | OK 3/10 1m0s | OK 4/5 1m0s", "a=1 refund hits:3", "b=3")
	p.wants("OK | OK 1/2 1s | OK 2/3 1m0s", "a=1 limit:2/SECOND", "a=1 limit:3/MINUTE")
}
