// Package enginetest returns a Redis engine for tests of packages that use one. It runs on
// rueidis, as in the weir binary.
package enginetest

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir/weirredis"
	"github.com/weirlimit/weir/weirredis/rueidisconn"
)

// On returns an engine on the server at addrs, or on the Cluster of these nodes, and its
// connection. Both end with the test.
func On(t testing.TB, addrs ...string) (*weirredis.Engine, *rueidisconn.Conn) {
	t.Helper()
	conn, err := rueidisconn.New(rueidis.ClientOption{InitAddress: addrs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	e, err := weirredis.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return e, conn
}
