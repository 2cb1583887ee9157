package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/bench/internal/redisserver"
	"github.com/weirlimit/weir/bench/internal/weirserve"
)

const policies = `version: 1
policies:
  users: {limit: 1_000_000 per hour per user}
`

// modules is the directory with the packages of other limiters.
const modules = "../clients/node/test/modules"

// A site is a weir and a Redis for the applications.
type site struct {
	dir   string
	weir  *weirserve.Server
	redis *redisserver.Server
	env   []string // of a program in Node
}

func newSite() (s *site, err error) {
	if _, err := os.Stat(filepath.Join(modules, "node_modules")); err != nil {
		install := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent")
		install.Dir, install.Stderr = modules, os.Stderr
		if err := install.Run(); err != nil {
			return nil, fmt.Errorf("npm ci in %s: %w", modules, err)
		}
	}
	s = &site{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.dir, err = os.MkdirTemp("", "weir-bench-node-"); err != nil {
		return nil, err
	}
	program, err := weirserve.Build(s.dir)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(s.dir, "weir.yaml")
	if err := os.WriteFile(file, []byte(policies), 0o600); err != nil {
		return nil, err
	}
	if s.weir, err = weirserve.Start(program, "--policies", file, "--resp-listen", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	if s.redis, err = redisserver.Start(); err != nil {
		return nil, err
	}
	where, err := filepath.Abs(modules)
	s.env = append(os.Environ(), "NODE_ENV=production", "MODULES="+where,
		"WEIR_RESP="+s.weir.RESP, "WEIR_HTTP="+s.weir.HTTP, "REDIS="+s.redis.Addr)
	return s, err
}

func (s *site) close() {
	if s.weir != nil {
		s.weir.Kill()
	}
	if s.redis != nil {
		s.redis.Stop()
	}
	os.RemoveAll(s.dir)
}

// node returns a program in Node with its arguments.
func (s *site) node(args ...string) *exec.Cmd {
	cmd := exec.Command("node", args...)
	cmd.Env, cmd.Stderr = s.env, os.Stderr
	return cmd
}

// call returns the processor time of Node for a call, in microseconds.
func (s *site) call(way string, each time.Duration) (float64, error) {
	out, err := s.node("node/calls.mjs", way, strconv.FormatInt(each.Milliseconds(), 10)).Output()
	if err != nil {
		return 0, err
	}
	var calls, micros float64
	if _, err := fmt.Sscan(string(out), &calls, &micros); err != nil || calls == 0 {
		return 0, fmt.Errorf("calls.mjs printed %q", out)
	}
	return micros / calls, nil
}

// requests returns the requests a second that the application answers.
func (s *site) requests(way string, each time.Duration, connections int) (float64, error) {
	app := s.node("node/app.mjs", way)
	out, err := app.StdoutPipe()
	if err == nil {
		err = app.Start()
	}
	if err != nil {
		return 0, err
	}
	defer func() {
		app.Process.Kill()
		app.Wait()
	}()
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return 0, err
	}
	address := "127.0.0.1:" + strings.TrimSpace(port)
	if _, err := load(address, each/2, connections); err != nil { // until the code is compiled
		return 0, err
	}
	answered, err := load(address, each, connections)
	return float64(answered) / each.Seconds(), err
}

// load sends requests on some connections, each after the answer to the one before, and returns
// the number of answers.
func load(address string, each time.Duration, connections int) (answered int64, err error) {
	end := time.Now().Add(each)
	var all sync.WaitGroup
	var mu sync.Mutex
	var count atomic.Int64
	for range connections {
		all.Go(func() {
			if failed := send(address, end, &count); failed != nil {
				mu.Lock()
				err = failed
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return count.Load(), err
}

var request = []byte("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")

// send sends requests on one connection until an instant. Package net/http would take more of the
// processor than the application leaves.
func send(address string, end time.Time, answered *atomic.Int64) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for time.Now().Before(end) {
		if _, err := conn.Write(request); err != nil {
			return err
		}
		if err := readAnswer(in); err != nil {
			return err
		}
		answered.Add(1)
	}
	return nil
}

// readAnswer reads an answer with status 200 and a length.
func readAnswer(in *bufio.Reader) error {
	status, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	if !strings.HasPrefix(status, "HTTP/1.1 200 ") {
		return errors.New("the application answers " + strings.TrimSpace(status))
	}
	length := 0
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		line = strings.TrimSpace(line)
		if line == "" {
			break
		}
		if text, ok := strings.CutPrefix(line, "Content-Length: "); ok {
			if length, err = strconv.Atoi(text); err != nil {
				return err
			}
		}
	}
	_, err = in.Discard(length)
	return err
}
