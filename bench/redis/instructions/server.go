package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/bench/internal/redisserver"
)

var ctx = context.Background()

// server is a redis-server under callgrind. Each ECHO writes the instructions since the one before
// to a file.
type server struct {
	client *redis.Client
	cmd    *exec.Cmd
	dir    string
	dumps  int
}

// start starts a server on a free loopback port.
func start() (*server, error) {
	for _, program := range []string{"valgrind", "redis-server"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("%s is not installed: on Debian and Ubuntu run `apt-get install %s`", program, program)
		}
	}
	dir, err := os.MkdirTemp("", "weir-callgrind")
	if err != nil {
		return nil, err
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := free.Addr().String()
	free.Close()
	_, port, _ := net.SplitHostPort(addr) // never fails: a listener has made it
	s := &server{dir: dir}
	s.cmd = exec.Command("valgrind", "--tool=callgrind", "--separate-threads=yes", "--dump-before=echoCommand",
		"--callgrind-out-file="+filepath.Join(dir, "dump"),
		"redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "", "--appendonly", "no",
		"--hz", "1", "--dynamic-hz", "no")
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	s.client = redisserver.Client(addr)
	for try := 0; ; try++ {
		if err = s.client.Ping(ctx).Err(); err == nil {
			return s, nil
		}
		if try == 300 {
			s.stop()
			return nil, fmt.Errorf("redis-server under valgrind does not answer: %w", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// stop ends the server.
func (s *server) stop() {
	s.client.Close()
	s.cmd.Process.Kill()
	s.cmd.Wait()
	os.RemoveAll(s.dir)
}

// instructions returns those of the server's first thread, the event loop, since the call before.
func (s *server) instructions() (float64, error) {
	if err := s.client.Echo(ctx, "dump").Err(); err != nil {
		return 0, err
	}
	s.dumps++
	return readTotals(filepath.Join(s.dir, fmt.Sprintf("dump.%d-01", s.dumps)))
}

// readTotals reads the sum of instructions of a profile.
func readTotals(file string) (float64, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "totals: "); ok {
			return strconv.ParseFloat(text, 64)
		}
	}
	return 0, fmt.Errorf("%s has no line of totals: %w", file, lines.Err())
}
