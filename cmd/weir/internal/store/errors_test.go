package store

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/listentest"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

// refusals has for each store, by its URL, the error of Open and texts in it.
type refusals map[string]struct {
	err   error
	words []string
}

// want opens each store, and fails the test unless its error has the texts and no password.
func (all refusals) want(t *testing.T) {
	for name, want := range all {
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			t.Parallel()
			s, err := Open(name, Options{})
			if err == nil {
				s.Close()
			}
			assert.Error(t, err, want.err, want.words...)
			if text := fmt.Sprint(err); strings.Contains(text, secret) || strings.Contains(text, "wrong-pass") {
				t.Errorf("the error holds the password: %s", text)
			}
		})
	}
}

// TestOpenErrors: every error names the address and the next step, never the password.
func TestOpenErrors(t *testing.T) {
	plain := redistest.Start(t)
	const unused = "127.0.0.1:1" // no other test gets it as a free address
	memcached := listentest.Serve(t, repeat("ERROR\r\n"))
	web := listentest.Serve(t, repeat("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"))
	closing := listentest.Serve(t, func(net.Conn) {})
	refusals{
		"redis://u:" + secret + "@" + unused:                {ErrUnreachable, []string{unused, "refused", "does it run"}},
		"redis+sentinel://:" + secret + "@" + unused + "/m": {ErrUnreachable, []string{unused, "refused", "does it run"}},
		"redis+cluster://:" + secret + "@" + unused:         {ErrUnreachable, []string{unused, "refused", "does it run"}},
		"redis://:" + secret + "@no-such-host.invalid":      {ErrUnreachable, []string{"no-such-host.invalid", "name right?"}},
		"redis://" + memcached:                              {ErrRefused, []string{memcached, "Redis's protocol", "port"}},
		"redis://" + web:                                    {ErrRefused, []string{web, "Redis's protocol", "port"}},
		"rediss://" + web:                                   {ErrRefused, []string{web, "does not speak TLS", "redis://"}},
		"redis://" + closing:                                {ErrUnreachable, []string{closing, "closes", "rediss://"}},
		"rediss://" + plain.Addr:                            {ErrUnreachable, []string{plain.Addr, "TLS", "write redis://"}},
		"rediss://h?ca=" + filepath.Join(t.TempDir(), "x"):  {ErrURL, []string{"ca=", "no such file"}},
		"rediss://h?ca=open_test.go":                        {ErrURL, []string{"PEM"}},
	}.want(t)
}

// TestOpenRefusals: servers of each version refuse in other words. Every error names the address
// and the next step, never the password, and nothing is written.
func TestOpenRefusals(t *testing.T) { redistest.OnEachVersion(t, testOpenRefusals) }

func testOpenRefusals(t *testing.T, v redistest.Version) {
	server := v.Start(t, "--requirepass", secret)
	plain := v.Start(t)
	plain.Must(t, "ACL", "SETUSER", "few", "on", ">"+secret, "~*", "+@connection")
	plain.Must(t, "ACL", "SETUSER", "timeless", "on", ">"+secret, "~*", "+@all", "-time")
	plain.Must(t, "ACL", "SETUSER", "keeper", "on", ">"+secret, "~*", "+@all", "-pexpire")
	plain.Must(t, "ACL", "SETUSER", "keyless", "on", ">"+secret, "~other*", "+@all")
	timeless, hashless := v.Start(t, "--rename-command", "TIME", ""), v.Start(t, "--rename-command", "HSET", "")
	lost := v.Start(t, "--replica-serve-stale-data", "no")
	lost.Must(t, "REPLICAOF", "127.0.0.1", "1")
	node := v.Start(t, "--cluster-enabled", "yes")
	watched := redistest.StartSentinel(t, plain, 0)
	t.Cleanup(func() {
		for _, s := range []*redistest.Server{server, plain} {
			if keys, err := s.Do("DBSIZE"); keys != "0" {
				t.Errorf("%s holds %s keys (%v), want nothing written", s.Addr, keys, err)
			}
		}
	})
	refusals{
		"redis://" + server.Addr:                                           {ErrRefused, []string{server.Addr, "NOAUTH", passwordVariable}},
		"redis://:wrong-pass@" + server.Addr:                               {ErrRefused, []string{server.Addr, "WRONGPASS", passwordVariable}},
		"redis://:" + secret + "@" + server.Addr + "/99":                   {ErrRefused, []string{server.Addr, "no database 99", "lower number"}},
		"redis://few:" + secret + "@" + plain.Addr + "?prefix=stage:":      {ErrRefused, []string{plain.Addr, "NOPERM", "on keys stage:weir*"}},
		"redis://timeless:" + secret + "@" + plain.Addr + "?prefix=stage:": {ErrRefused, []string{plain.Addr, "script", "on keys stage:weir*"}},
		"redis://keeper:" + secret + "@" + plain.Addr:                      {weirredis.ErrServer, []string{plain.Addr, "refuses PEXPIRE", "+@keyspace"}},
		"redis://keyless:" + secret + "@" + plain.Addr:                     {weirredis.ErrServer, []string{plain.Addr, "refuses GET", "on keys weir*"}},
		"redis://" + timeless.Addr:                                         {ErrRefused, []string{timeless.Addr, "command called from", "rename-command"}},
		"redis://" + hashless.Addr:                                         {weirredis.ErrServer, []string{hashless.Addr, "refuses HSET", "rename-command"}},
		"redis://" + lost.Addr:                                             {ErrUnreachable, []string{lost.Addr, "MASTERDOWN", "connect to the primary"}},
		"redis+cluster://:" + secret + "@" + server.Addr:                   {ErrURL, []string{server.Addr, "not a Cluster", "redis://"}},
		"redis://" + node.Addr + "/3":                                      {ErrURL, []string{node.Addr, "no database but 0", "leave out the /"}},
		"redis+sentinel://" + watched.Addr + "/other":                      {ErrRefused, []string{watched.Addr, `no master "other"`, "sentinel monitor"}},
		"redis+sentinel://" + plain.Addr + "/other":                        {ErrRefused, []string{plain.Addr, "not a Sentinel", "redis://", "26379"}},
		"redis://" + watched.Addr:                                          {ErrRefused, []string{watched.Addr, "cannot run scripts", "redis+sentinel://", "too old", "6.2"}},
	}.want(t)
}

// repeat is a server that sends the same answer to every request.
func repeat(answer string) func(net.Conn) {
	return func(c net.Conn) {
		for b := make([]byte, 4096); ; {
			if _, err := c.Read(b); err != nil {
				return
			}
			io.WriteString(c, answer)
		}
	}
}
