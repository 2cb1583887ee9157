//go:build unix

package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// childVariable holds the name of the handler in a child process of the benchmarks.
const childVariable = "WEIR_BENCH_SERVES"

func TestMain(m *testing.M) {
	if name := os.Getenv(childVariable); name != "" {
		serveAsChild(name)
		return
	}
	os.Exit(m.Run())
}

// serveAsChild serves until standard input ends. It prints its address on standard
// output, and returns its CPU time in microseconds at /cpu.
func serveAsChild(name string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	h := benchHandler(name)
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/cpu" {
			fmt.Fprint(w, cpuTime().Microseconds())
			return
		}
		h.ServeHTTP(w, r)
	}))
	fmt.Println(l.Addr())
	io.Copy(io.Discard, os.Stdin)
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// child is a server process and some connections to it.
type child struct {
	addr  string
	conns []net.Conn
}

func startChild(b *testing.B, name string) *child {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+name, "TMPDIR="+b.TempDir())
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	c := &child{addr: strings.TrimSpace(line)}
	for range 8 {
		conn, err := net.Dial("tcp", c.addr)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { conn.Close() })
		c.conns = append(c.conns, conn)
	}
	return c
}

// cost returns the CPU time that the child needs for n requests.
func (c *child) cost(b *testing.B, request string, n int) time.Duration {
	b.Helper()
	before := c.cpu(b)
	var wg sync.WaitGroup
	for _, conn := range c.conns {
		wg.Go(func() {
			in := bufio.NewReader(conn)
			for range n / len(c.conns) {
				if _, err := io.WriteString(conn, request); err != nil {
					b.Error(err)
					return
				}
				if err := skip(in); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return c.cpu(b) - before
}

func (c *child) cpu(b *testing.B) time.Duration {
	b.Helper()
	r, err := http.Get("http://" + c.addr + "/cpu")
	if err != nil {
		b.Fatal(err)
	}
	defer r.Body.Close()
	var us int64
	if _, err := fmt.Fscan(r.Body, &us); err != nil {
		b.Fatal(err)
	}
	return time.Duration(us) * time.Microsecond
}

// skip reads one answer that grants.
func skip(in *bufio.Reader) error {
	length := 0
	for first := true; ; first = false {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 2")) {
			return fmt.Errorf("answer %s", line)
		}
		if v, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(v))); err != nil {
				return err
			}
		}
		if len(line) == 2 {
			_, err := in.Discard(length)
			return err
		}
	}
}
