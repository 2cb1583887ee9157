// Package enginetest gives tests of what is built on the Redis engine that engine, as
// our own program has it: over rueidis.
package enginetest

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir/weirredis"
	"github.com/weirlimit/weir/weirredis/rueidisconn"
)

// On returns an engine on the server at addrs, or the Cluster of which they are nodes,
// and its connection, until the test ends.
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
