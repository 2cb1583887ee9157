package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// server is a process of weir that serves both protocols.
type server struct {
	dir, grpc, resp string
	cmd             *exec.Cmd
}

// The policy of both protocols: a limit that grants everything.
const (
	policies = "version: 1\npolicies: {users: {limit: 1_000_000 per hour per user}}\n"
	envoy    = "domain: bench\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 1000000}}]\n"
)

// start builds weir from this checkout, which contains the working directory, and waits
// until it prints its addresses.
func start() (s *server, err error) {
	s = &server{}
	if s.dir, err = os.MkdirTemp("", "weir-bench-resp-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	path := func(name string) string { return filepath.Join(s.dir, name) }
	build := exec.Command("go", "build", "-trimpath", "-o", path("weir"), "./cmd/weir")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return s, fmt.Errorf("go build: %w\n%s", err, out)
	}
	for name, text := range map[string]string{"weir.yaml": policies, "envoy.yaml": envoy} {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			return s, err
		}
	}
	s.cmd = exec.Command(path("weir"), "serve", "--policies", path("weir.yaml"), "--envoy-config", path("envoy.yaml"),
		"--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--resp-listen", "127.0.0.1:0")
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	talk, err := s.cmd.StderrPipe()
	if err != nil {
		return s, err
	}
	if err := s.cmd.Start(); err != nil {
		return s, err
	}
	lines, output := bufio.NewScanner(talk), ""
	for (s.grpc == "" || s.resp == "") && lines.Scan() {
		output += lines.Text() + "\n"
		switch words := strings.Fields(lines.Text()); {
		case len(words) > 1 && words[0] == "grpc":
			s.grpc = words[1]
		case len(words) > 2 && words[0] == "Redis" && words[1] == "clients":
			s.resp = words[2]
		}
	}
	if s.grpc == "" || s.resp == "" {
		return s, errors.New("weir serve did not print its addresses, only:\n" + output)
	}
	go func() {
		for lines.Scan() {
			fmt.Fprintln(os.Stderr, lines.Text())
		}
	}()
	return s, nil
}

func (s *server) stop() {
	if s.cmd != nil && s.cmd.Process != nil {
		s.cmd.Process.Kill()
		s.cmd.Wait()
	}
	os.RemoveAll(s.dir)
}

// cpu returns the processor time of the server since its start.
func (s *server) cpu() time.Duration {
	clock := uintptr(int32(^s.cmd.Process.Pid)<<3 | 2) // CPUCLOCK_SCHED of a process
	var t syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		panic(errno) // the process is ours and runs
	}
	return time.Duration(t.Nano())
}
