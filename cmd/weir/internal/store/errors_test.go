package store

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/listentest"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

// TestOpenErrors: every error names the address and the next step, never the password,
// and nothing is written.
func TestOpenErrors(t *testing.T) {
	server := redistest.Start(t, "--requirepass", secret)
	plain := redistest.Start(t)
	plain.Must(t, "ACL", "SETUSER", "few", "on", ">"+secret, "~*", "+@connection")
	plain.Must(t, "ACL", "SETUSER", "timeless", "on", ">"+secret, "~*", "+@all", "-time")
	plain.Must(t, "ACL", "SETUSER", "keeper", "on", ">"+secret, "~*", "+@all", "-pexpire")
	node := redistest.Start(t, "--cluster-enabled", "yes")
	watched := redistest.StartSentinel(t, plain, 0)
	unused := freeAddress(t)
	memcached := listentest.Serve(t, repeat("ERROR\r\n"))
	web := listentest.Serve(t, repeat("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"))
	closing := listentest.Serve(t, func(net.Conn) {})
	for name, want := range map[string]struct {
		err   error
		words []string
	}{
		"redis://u:" + secret + "@" + unused:                               {ErrUnreachable, []string{unused, "refused", "does it run"}},
		"redis+sentinel://:" + secret + "@" + unused + "/m":                {ErrUnreachable, []string{unused, "refused", "does it run"}},
		"redis+cluster://:" + secret + "@" + unused:                        {ErrUnreachable, []string{unused, "refused", "does it run"}},
		"redis://:" + secret + "@no-such-host.invalid":                     {ErrUnreachable, []string{"no-such-host.invalid", "name right?"}},
		"redis://" + server.Addr:                                           {ErrRefused, []string{server.Addr, "NOAUTH", passwordVariable}},
		"redis://:wrong-pass@" + server.Addr:                               {ErrRefused, []string{server.Addr, "WRONGPASS", passwordVariable}},
		"redis://:" + secret + "@" + server.Addr + "/99":                   {ErrRefused, []string{server.Addr, "no database 99", "lower number"}},
		"redis://few:" + secret + "@" + plain.Addr + "?prefix=stage:":      {ErrRefused, []string{plain.Addr, "NOPERM", "on keys stage:weir*"}},
		"redis://timeless:" + secret + "@" + plain.Addr + "?prefix=stage:": {ErrRefused, []string{plain.Addr, "The user executing", "on keys stage:weir*"}},
		"redis://keeper:" + secret + "@" + plain.Addr:                      {weirredis.ErrServer, []string{plain.Addr, "refuses PEXPIRE", "+@keyspace"}},
		"redis+cluster://:" + secret + "@" + server.Addr:                   {ErrURL, []string{server.Addr, "not a Cluster", "redis://"}},
		"redis://" + node.Addr + "/3":                                      {ErrURL, []string{node.Addr, "no database but 0", "leave out the /"}},
		"redis+sentinel://" + watched.Addr + "/other":                      {ErrRefused, []string{watched.Addr, `no master "other"`, "sentinel monitor"}},
		"redis+sentinel://" + plain.Addr + "/other":                        {ErrRefused, []string{plain.Addr, "not a Sentinel", "redis://", "26379"}},
		"redis://" + watched.Addr:                                          {ErrRefused, []string{watched.Addr, "cannot run scripts", "redis+sentinel://", "too old", "6.2"}},
		"redis://" + memcached:                                             {ErrRefused, []string{memcached, "Redis's protocol", "port"}},
		"redis://" + web:                                                   {ErrRefused, []string{web, "Redis's protocol", "port"}},
		"rediss://" + web:                                                  {ErrRefused, []string{web, "does not speak TLS", "redis://"}},
		"redis://" + closing:                                               {ErrUnreachable, []string{closing, "closes", "rediss://"}},
		"rediss://" + plain.Addr:                                           {ErrUnreachable, []string{plain.Addr, "TLS", "write redis://"}},
		"rediss://h?ca=" + filepath.Join(t.TempDir(), "x"):                 {ErrURL, []string{"ca=", "no such file"}},
		"rediss://h?ca=open_test.go":                                       {ErrURL, []string{"PEM"}},
	} {
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			t.Parallel()
			s, err := Open(name, Options{})
			if err == nil {
				s.Close()
			}
			if !errors.Is(err, want.err) {
				t.Fatalf("got %v, want %v", err, want.err)
			}
			for _, word := range want.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not contain %q", err, word)
				}
			}
			if text := err.Error(); strings.Contains(text, secret) || strings.Contains(text, "wrong-pass") {
				t.Errorf("the error holds the password: %s", text)
			}
		})
	}
	t.Cleanup(func() {
		for _, s := range []*redistest.Server{server, plain} {
			if keys, err := s.Do("DBSIZE"); keys != "0" {
				t.Errorf("%s holds %s keys (%v), want nothing written", s.Addr, keys, err)
			}
		}
	})
}

// freeAddress returns an address without a listener.
func freeAddress(t *testing.T) string {
	t.Helper()
	closed := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	closed.Close()
	return closed.Addr().String()
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
