// Package weirserve builds weir from this checkout and runs it as a separate process, for
// measurements from outside. It needs Linux.
package weirserve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// Build builds the program as make build does, into dir, and returns its path. The
// working directory must be that of the bench module.
func Build(dir string) (string, error) {
	path := filepath.Join(dir, "weir")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "./cmd/weir")
	cmd.Dir, cmd.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build (run this in the directory bench): %w\n%s", err, out)
	}
	return path, nil
}

// Server is a running weir serve, or another server.
type Server struct {
	HTTP, GRPC, RESP string        // addresses, host:port; "" = no such listener
	Admin            string        // address of the operators' listener, host:port; that of HTTP if there is none
	Ready            time.Duration // from the start of the process until its listeners were open

	cmd  *exec.Cmd
	mu   sync.Mutex // protects the following
	said strings.Builder
}

// Start runs weir serve with --listen and args, and waits until it is ready.
func Start(weir string, args ...string) (*Server, error) {
	return start(exec.Command(weir, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...))
}

// StartOther runs another program. It must write "weir listens on http://host:port" and
// "  look" on lines of stderr, as weir does.
func StartOther(program string, args ...string) (*Server, error) {
	return start(exec.Command(program, args...))
}

func start(cmd *exec.Cmd) (*Server, error) {
	s := &Server{cmd: cmd}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	talk, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(talk)
	for complete := false; !complete && lines.Scan(); {
		s.say(lines.Text())
		words := strings.Fields(lines.Text())
		switch {
		case strings.HasPrefix(lines.Text(), "weir listens on http://"):
			s.HTTP = strings.TrimPrefix(words[3], "http://")
		case len(words) > 1 && words[0] == "operators":
			s.Admin = strings.TrimPrefix(words[1], "http://")
		case len(words) > 1 && words[0] == "grpc":
			s.GRPC = words[1]
		case len(words) > 2 && words[0] == "Redis" && words[1] == "clients":
			s.RESP = words[2]
		case len(words) > 0 && words[0] == "look": // the last line of all
			complete = true
		}
	}
	s.Ready = time.Since(began)
	if s.Admin == "" {
		s.Admin = s.HTTP
	}
	if s.HTTP == "" {
		s.Kill()
		return nil, errors.New("its output has no address:\n" + s.Stderr())
	}
	go func() {
		for lines.Scan() {
			s.say(lines.Text())
		}
	}()
	return s, nil
}

func (s *Server) say(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.said.Len() < 1<<20 {
		s.said.WriteString(line + "\n")
	}
}

// Stderr returns the first MiB of its stderr.
func (s *Server) Stderr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said.String()
}

// Kill ends the process with SIGKILL.
func (s *Server) Kill() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// Drain ends the process with SIGTERM. The error reports an exit code other than 0.
func (s *Server) Drain() error {
	s.cmd.Process.Signal(syscall.SIGTERM)
	return s.cmd.Wait()
}

// CPU returns its processor time so far.
func (s *Server) CPU() time.Duration {
	clock := uintptr(int32(^s.cmd.Process.Pid)<<3 | 2) // CPUCLOCK_SCHED of a process
	var t syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		panic(errno) // the process is ours and runs
	}
	return time.Duration(t.Nano())
}

// Resident returns its resident memory, in bytes.
func (s *Server) Resident() (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	kib, err := strconv.ParseInt(strings.Fields(rest + " 0")[0], 10, 64)
	return kib << 10, err
}

// Metric returns the value of one series of its /metrics.
func (s *Server) Metric(series string) (float64, error) {
	text, err := s.Get("/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(text, "\n") {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, errors.New("there is no " + series + " in /metrics")
}

// ExitCode returns the exit code of the process after Drain; -1 if a signal ended it.
func (s *Server) ExitCode() int { return s.cmd.ProcessState.ExitCode() }

// Get returns the body of an operators' page. Its status must be 200.
func (s *Server) Get(path string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Admin+path, nil)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, res.Status)
	}
	return string(body), err
}

// Dial connects to its HTTP listener.
func (s *Server) Dial() (net.Conn, error) { return net.Dial("tcp", s.HTTP) }
