package store

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/listentest"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/redistest"
)

const secret = "s3cret-pass"

// decide makes the one grant of a limit of one, and says whether it was granted.
func decide(t *testing.T, s *Store) bool {
	t.Helper()
	l, err := weir.New(weir.Policy{Name: "p", Limits: []weir.Limit{{Name: "l", Max: 1, Window: time.Minute, By: []string{"k"}}}},
		weir.WithEngine(s.Engine))
	must.Do(t, err)
	d, err := l.Allow(context.Background(), weir.K("42"))
	if err != nil {
		t.Fatal(err)
	}
	return d.Allowed
}

// mustOpen opens a store for the length of the test.
func mustOpen(t *testing.T, name string) *Store {
	t.Helper()
	s, err := Open(name, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestOpenDecides: each kind of store makes the one grant, and only those on a server are shared.
func TestOpenDecides(t *testing.T) { redistest.OnEachVersion(t, testOpenDecides) }

func testOpenDecides(t *testing.T, v redistest.Version) {
	t.Parallel() // most of the time a Cluster waits for its nodes
	sentinel := redistest.StartSentinel(t, v.Start(t), 0)
	cluster := v.StartCluster(t)
	for name, shared := range map[string]bool{"memory": false, "redis+sentinel://" + sentinel.Addr + "/" + redistest.SentinelName: true,
		"redis+cluster://" + strings.Join(cluster.Addrs(), ","): true} {
		if s := mustOpen(t, name); !decide(t, s) || decide(t, s) || s.Shared != shared {
			t.Errorf("%s: shared %t, want one grant and %t", name, s.Shared, shared)
		}
	}
}

// TestOpenShares opens one server twice, in every way a password can be given.
func TestOpenShares(t *testing.T) {
	server := redistest.Start(t, "--requirepass", secret)
	t.Setenv(passwordVariable, secret)
	a := mustOpen(t, "redis://"+server.Addr)
	t.Setenv(passwordVariable, "")
	b := mustOpen(t, "redis://default:"+secret+"@"+server.Addr+"/0")
	if !decide(t, a) || decide(t, b) || !a.Shared {
		t.Error("two stores on one server: want one grant between them")
	}
	if other := mustOpen(t, "redis://:"+secret+"@"+server.Addr+"/1"); !decide(t, other) {
		t.Error("another database shares the histories")
	}
	if strings.Contains(a.Name+b.Name, secret) {
		t.Errorf("the names hold the password: %s %s", a.Name, b.Name)
	}
}

// TestOpenTLS connects over TLS to a server with the authority of ca=.
func TestOpenTLS(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{}
	authority := listentest.NewAuthority(t)
	pair := authority.Issue(t, "store.test")
	for name, text := range map[string]string{"key": pair.Key, "cert": pair.Cert, "ca": authority.PEM} {
		files[name] = filepath.Join(dir, name+".pem")
		must.Do(t, os.WriteFile(files[name], []byte(text), 0o600))
	}
	server := redistest.Start(t, "--tls-cert-file", files["cert"], "--tls-key-file", files["key"], "--tls-auth-clients", "no")
	var port string
	must.Await(t, "Redis gets a port for TLS", func() bool { // another program may take one that was free
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		must.Do(t, err)
		port = strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
		listener.Close()
		_, err = server.Do("CONFIG", "SET", "tls-port", port)
		return err == nil
	})
	if s := mustOpen(t, "rediss://127.0.0.1:"+port+"?ca="+files["ca"]); !decide(t, s) || decide(t, s) {
		t.Error("over TLS: want one grant")
	}
	if _, err := Open("rediss://127.0.0.1:"+port, Options{}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "ca=") {
		t.Errorf("an unknown authority: got %v, want ErrRefused and the way to trust it", err)
	}
}

// TestOpenFile: histories survive the end of a store, and one process at a time has them.
func TestOpenFile(t *testing.T) {
	name := "file:" + t.TempDir() + "/weir?sync=always"
	s, err := Open(name, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !decide(t, s) || s.Shared || s.Memory != nil || s.Err() != nil {
		t.Errorf("want a grant in a store of one process: %+v, %v", s, s.Err())
	}
	if _, err := Open(name, Options{}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "in use") {
		t.Errorf("opened twice: %v, want ErrRefused", err)
	}
	must.Do(t, s.Close())
	again := mustOpen(t, name)
	if decide(t, again) {
		t.Error("the grant was forgotten")
	}
}
