package weirredis_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

// TestRepliesOfEachVersion: a server of each version that cannot record names its reason in an
// error reply. The error of a call has the place and the next step, and nothing is counted.
func TestRepliesOfEachVersion(t *testing.T) { redistest.OnEachVersion(t, testRepliesOfEachVersion) }

func testRepliesOfEachVersion(t *testing.T, v redistest.Version) {
	for name, c := range map[string]struct {
		args  []string
		bring func(t *testing.T, s *redistest.Server) // into the state
		err   error
		words []string
	}{
		"full":       {[]string{"--maxmemory", "1"}, nil, weir.ErrFull, []string{"OOM", "raise it, or wait"}},
		"replica":    {nil, func(t *testing.T, s *redistest.Server) { s.Must(t, "REPLICAOF", "127.0.0.1", "1") }, weir.ErrUnavailable, []string{"READONLY", "connect to the primary"}},
		"cut off":    {[]string{"--replica-serve-stale-data", "no"}, func(t *testing.T, s *redistest.Server) { s.Must(t, "REPLICAOF", "127.0.0.1", "1") }, weir.ErrUnavailable, []string{"MASTERDOWN", "connect to the primary"}},
		"alone":      {[]string{"--min-replicas-to-write", "1"}, nil, weir.ErrUnavailable, []string{"NOREPLICAS", "min-replicas-to-write"}},
		"no slots":   {[]string{"--cluster-enabled", "yes"}, nil, weir.ErrUnavailable, []string{"CLUSTERDOWN", "CLUSTER INFO"}},
		"no disk":    {[]string{"--save", "3600 1", "--enable-protected-configs", "local"}, failToSave, weir.ErrUnavailable, []string{"MISCONF", "look at its log"}},
		"locked":     {[]string{"--requirepass", "s3cret"}, func(t *testing.T, s *redistest.Server) { s.Password = "" }, weir.ErrUnavailable, []string{"NOAUTH", "give the client a password"}},
		"no scripts": {nil, func(t *testing.T, s *redistest.Server) { s.Must(t, "ACL", "SETUSER", "default", "-evalsha", "-eval") }, weir.ErrUnavailable, []string{"NOPERM", "its user needs +@scripting"}},
		"other keys": {nil, func(t *testing.T, s *redistest.Server) {
			s.Must(t, "ACL", "SETUSER", "default", "resetkeys", "~other*")
		}, weir.ErrUnavailable, []string{"NOPERM", "on keys weir*"}},
		"no EVALSHA": {[]string{"--rename-command", "EVALSHA", ""}, nil, weir.ErrUnavailable, []string{"unknown command", "rename-command"}},
		"no HSET":    {[]string{"--rename-command", "HSET", ""}, nil, weir.ErrUnavailable, []string{"command called from", "rename-command"}},
		"no HGET":    {[]string{"--rename-command", "HGET", ""}, nil, weir.ErrUnavailable, []string{"command called from", "rename-command"}},
		"no TIME":    {[]string{"--rename-command", "TIME", ""}, nil, weir.ErrUnavailable, []string{"command called from", "rename-command"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := v.Start(t, c.args...)
			if c.bring != nil {
				c.bring(t, s)
			}
			_, err := limiter(t, newEngine(t, s.Conn(t)), "p", weir.AllOrNothing, perUser(5, time.Hour)).Allow(ctx, weir.K("u"))
			assert.Error(t, err, c.err, append(c.words, s.Addr)...)
			if errors.Is(err, weir.ErrUnreadable) || errors.Is(err, weir.ErrOutcomeUnknown) {
				t.Errorf("%v is ErrUnreadable or ErrOutcomeUnknown", err)
			}
		})
	}
}

// failToSave makes the last snapshot of a server fail.
func failToSave(t *testing.T, s *redistest.Server) {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "gone")
	if err != nil {
		t.Fatal(err)
	}
	s.Must(t, "CONFIG", "SET", "dir", dir)
	must.Do(t, os.Remove(dir))
	s.Must(t, "BGSAVE")
	must.Await(t, "a failed snapshot", func() bool { return s.Info(t, "rdb_last_bgsave_status") == "err" })
}

// TestCheckOfDisabledCommands: a command of the scripts is disabled on the server. Check names it.
func TestCheckOfDisabledCommands(t *testing.T) {
	redistest.OnEachVersion(t, func(t *testing.T, v redistest.Version) {
		const commands = "GET HDEL HGET HGETALL HLEN HSCAN HSET PEXPIRE PTTL SET UNLINK"
		for command := range strings.FieldsSeq(commands) {
			s := v.Start(t, "--rename-command", command, "")
			_, err := newEngine(t, s.Conn(t)).Check(ctx)
			assert.Error(t, err, weirredis.ErrServer, s.Addr+" refuses "+command+" (", "rename-command")
		}
	})
}

// TestCheckOfOtherKeys: a user may lack the right to the keys. Check names the rights.
func TestCheckOfOtherKeys(t *testing.T) {
	redistest.OnEachVersion(t, func(t *testing.T, v redistest.Version) {
		s := v.Start(t)
		s.Must(t, "ACL", "SETUSER", "default", "resetkeys", "~other*")
		_, err := newEngine(t, s.Conn(t)).Check(ctx)
		assert.Error(t, err, weirredis.ErrServer, s.Addr+" refuses GET (", "on keys weir*")
	})
}

// TestCheckOfAClusterNode: a client without redirections reaches the keys of one node alone.
func TestCheckOfAClusterNode(t *testing.T) {
	redistest.OnEachVersion(t, func(t *testing.T, v redistest.Version) {
		r, err := newEngine(t, v.Start(t, "--cluster-enabled", "yes").Conn(t)).Check(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if r.Mode != "cluster" || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "use a client for Clusters") {
			t.Errorf("got %+v, want a node of a Cluster and a warning", r)
		}
	})
}
