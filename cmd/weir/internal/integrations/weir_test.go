//go:build linux

package integrations

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/weirlimit/weir/internal/testkit/must"
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
	must.Await(s.t, "no thread of weir runs", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.weir.Process.Pid))
		runs := func(thread string) bool {
			b, err := os.ReadFile(thread)
			return err == nil && !strings.Contains(string(b), ") T ")
		}
		return err == nil && len(threads) > 0 && !slices.ContainsFunc(threads, runs)
	})
}

// killWeir kills weir without a shutdown, like a crash.
func (s *stand) killWeir() {
	s.weir.Process.Kill()
	s.weir.Wait()
}
