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

// server is a process with Envoy's protocol.
type server struct {
	name string
	addr string
	cmd  *exec.Cmd
}

// start runs a command and waits until it prints its address.
func start(name string, command []string, env ...string) (*server, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = write, write
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	write.Close()
	s := &server{name: name, cmd: cmd}
	found := make(chan string, 1)
	go func() {
		defer close(found)
		var output []string
		for lines := bufio.NewScanner(read); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			output = append(output, lines.Text())
			switch {
			case len(fields) == 1 && strings.HasPrefix(fields[0], "127."):
				found <- fields[0]
			case len(fields) > 1 && fields[0] == "grpc":
				found <- fields[1]
			}
		}
		if len(output) > 0 && s.addr == "" {
			fmt.Fprintln(os.Stderr, strings.Join(output, "\n"))
		}
	}()
	select {
	case s.addr = <-found:
	case <-time.After(20 * time.Second):
	}
	if s.addr == "" {
		s.stop()
		return nil, errors.New(name + " did not print its address")
	}
	return s, nil
}

func (s *server) stop() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// cpu returns the processor time of the server since its start.
func (s *server) cpu() time.Duration {
	clock := uintptr(int32(^s.cmd.Process.Pid)<<3 | 2) // CPUCLOCK_SCHED of a process
	var t syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, uintptr(clock), uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		panic(errno) // the process is ours and runs
	}
	return time.Duration(t.Nano())
}

// build builds Weir's program from this checkout, which contains the working directory.
func build(dir string) (string, error) {
	path := filepath.Join(dir, "weir")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "./cmd/weir")
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
}
