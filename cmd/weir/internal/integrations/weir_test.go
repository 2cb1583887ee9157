//go:build linux

package integrations

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/weirlimit/weir/internal/testkit/program"
)

// startWeir starts weir at the address in the snippet.
func (s *stand) startWeir() {
	s.t.Helper()
	args := []string{"serve", "--policies", s.write("policies.yaml", policies), "--listen", s.options.Weir, "--socket-mode", "0666"}
	if s.options.Secret {
		args = append(args, "--gate-secret-file", s.write("secrets", s.secrets))
	}
	cmd := exec.Command(program.Path(s.t), append(args, s.serve...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.weir = program.Serve(s.t, cmd).Cmd
}

// freezeWeir suspends weir with its connections open, until SIGCONT. It waits until all
// its threads have stopped.
func (s *stand) freezeWeir() {
	s.t.Helper()
	s.weir.Process.Signal(syscall.SIGSTOP)
	for end := time.Now().Add(testTimeout); ; time.Sleep(time.Millisecond) {
		running := 0
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.weir.Process.Pid))
		for _, thread := range threads {
			if b, err := os.ReadFile(thread); err == nil && !strings.Contains(string(b), ") T ") {
				running++
			}
		}
		if err == nil && len(threads) > 0 && running == 0 {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("weir does not stop: %d of %d threads run, %v", running, len(threads), err)
		}
	}
}

// killWeir kills weir without a shutdown, like a crash.
func (s *stand) killWeir() {
	s.weir.Process.Kill()
	s.weir.Wait()
}
