package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/weirlimit/weir/internal/testkit/needs"
)

// openTerminal opens both ends of a pseudo terminal.
func openTerminal(t *testing.T) (control, terminal *os.File) {
	t.Helper()
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { control.Close() })
	var number, unlocked uint32
	for request, value := range map[uintptr]*uint32{syscall.TIOCGPTN: &number, syscall.TIOCSPTLCK: &unlocked} {
		if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, control.Fd(), request, uintptr(unsafe.Pointer(value))); e != 0 {
			t.Fatal(e)
		}
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return control, terminal
}

// TestProgressOnATerminal writes a log to weir until its terminal shows the line.
func TestProgressOnATerminal(t *testing.T) {
	needs.Time(t)
	control, terminal := openTerminal(t)
	policies := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(policies, []byte("version: 1\npolicies:\n  search: {limit: 5 per minute per ip}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	weir := exec.Command("weir", "replay", "--policies", policies, "--key", "ip=remote_addr", "--json", "-")
	weir.Env = append(weir.Environ(), "TERM=xterm")
	in, err := weir.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	weir.Stdout, weir.Stderr = &stdout, terminal
	if err := weir.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { weir.Process.Kill() })
	seen := make(chan string)
	go func() {
		b := make([]byte, 4096)
		for all := ""; ; {
			n, err := control.Read(b)
			if all += string(b[:n]); n > 0 {
				seen <- all
			}
			if err != nil {
				close(seen)
				return
			}
		}
	}()
	line := `192.0.2.1 - - [05/Mar/2026:08:00:01 +0000] "GET / HTTP/1.1" 200 500` + "\n"
	shown := ""
	for end := time.Now().Add(testTimeout); !strings.Contains(shown, " lines/s"); {
		select {
		case shown = <-seen:
		case <-time.After(10 * time.Millisecond):
			if time.Now().After(end) {
				t.Fatalf("the terminal shows %q", shown)
			}
			in.Write([]byte(strings.Repeat(line, 100)))
		}
	}
	if !strings.HasPrefix(shown, clearLine) {
		t.Errorf("got %q", shown)
	}
	in.Close()
	done := make(chan error, 1)
	go func() { done <- weir.Wait(); terminal.Close() }()
	for all := range seen {
		shown = all
	}
	if err := <-done; err != nil || !strings.HasSuffix(shown, clearLine) || !strings.HasPrefix(stdout.String(), `{"requests":`) {
		t.Errorf("got %v, %q and on stdout %q", err, shown, stdout.String())
	}
}
