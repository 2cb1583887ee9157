package program

import (
	"bufio"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// bannerTimeout bounds the wait for the banner, also on a crowded machine.
const bannerTimeout = time.Minute

// Server is a weir serve that was started by a test.
type Server struct {
	*exec.Cmd
	Main, Admin string        // addresses of the listeners for decisions and for operators, host:port; "" if there is none
	RESP        string        // address of the listener for Redis clients; "" if there is none
	Ended       chan struct{} // closed when it has closed its standard error

	mu     sync.Mutex
	output strings.Builder
}

var respListener = regexp.MustCompile(`(?m)^  Redis clients +(\S+)$`)

var listener = regexp.MustCompile(`(?m)^(weir listens on|  operators) +http://(\S+)$`)

// Start starts a command that runs weir serve.
func Start(cmd *exec.Cmd) (*Server, error) {
	s := &Server{Cmd: cmd, Ended: make(chan struct{})}
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	go func() {
		defer close(s.Ended)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			s.mu.Lock()
			s.output.WriteString(lines.Text() + "\n")
			s.mu.Unlock()
		}
	}()
	return s, nil
}

// Await waits until the output shows that the server listens.
func (s *Server) Await(listens func(output string) bool) error {
	tooLong := time.After(bannerTimeout)
	for !listens(s.Output()) {
		select {
		case <-s.Ended:
			return fmt.Errorf("%s ended before it listened:\n%s", s.Cmd, s.Output())
		case <-tooLong:
			return fmt.Errorf("%s does not listen:\n%s", s.Cmd, s.Output())
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// Serve starts a command that runs weir serve, and waits until it listens. The end of the test
// kills it.
func Serve(t testing.TB, cmd *exec.Cmd) *Server {
	t.Helper()
	s, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	lastLine := func(output string) bool { return strings.Contains(output, "\n  look ") }
	if err := s.Await(lastLine); err != nil {
		t.Fatal(err)
	}
	if m := respListener.FindStringSubmatch(s.Output()); m != nil {
		s.RESP = m[1]
	}
	for _, m := range listener.FindAllStringSubmatch(s.Output(), -1) {
		if m[1] == "  operators" {
			s.Admin = m[2]
		} else {
			s.Main = m[2]
		}
	}
	return s
}

// Output returns the text on standard error so far.
func (s *Server) Output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.String()
}
