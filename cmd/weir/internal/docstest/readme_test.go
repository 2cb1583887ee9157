//go:build unix

package docs_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/internal/testkit/program"
	"github.com/weirlimit/weir/internal/testkit/redistest"
)

// TestReadmeIsShort keeps the README to what a newcomer reads.
func TestReadmeIsShort(t *testing.T) {
	if n := strings.Count(read(t, "README.md"), "\n"); n > 150 {
		t.Errorf("README.md has %d lines, more than 150; move details to docs/", n)
	}
}

// TestReadmeQuickStart runs `make run` and the README's request three times, unchanged
// except for the address: `make run` takes 7070, which may be in use here.
func TestReadmeQuickStart(t *testing.T) {
	needs.Time(t)
	if !strings.Contains(read(t, "README.md"), "`make run`") {
		t.Fatal("the README does not name `make run`")
	}
	address := freeAddress(t)
	program.Path(t) // compiles; make run links
	cmd := exec.Command("make", "run", "LISTEN="+address, "BIN="+t.TempDir())
	cmd.Env = environment()
	runUntilReady(t, cmd, address)
	request := command(t, "README.md", "curl")
	script := strings.ReplaceAll(request, "http://127.0.0.1:7070", "http://"+address)
	if script == request {
		t.Fatalf("no http://127.0.0.1:7070 in the README's %q", request)
	}
	var last answer
	for i := range 3 {
		got := answers(t, shell(t, ".", strings.Replace(script, "curl ", "curl -s ", 1)))
		if len(got) != 1 || got[0].Allowed != (i < 2) {
			t.Fatalf("answer %d is %+v, want allowed %t", i+1, got, i < 2)
		}
		last = got[0]
	}
	checkShownAnswer(t, last.text)
}

// checkShownAnswer checks that the members of the README's JSON answer are those of a real
// answer. Only the waits may differ.
func checkShownAnswer(t *testing.T, real string) {
	t.Helper()
	blocks := snippets(t, "README.md", "json")
	if len(blocks) != 1 {
		t.Fatalf("the README has %d JSON answers, want 1", len(blocks))
	}
	var shown, answer map[string]any
	must.Do(t, json.Unmarshal([]byte(blocks[0]), &shown))
	must.Do(t, json.Unmarshal([]byte(real), &answer))
	wait := regexp.MustCompile(`[0-9.]+s$`)
	for member, want := range shown {
		got, ok := answer[member]
		if member == "why" && ok {
			got, want = wait.ReplaceAllString(got.(string), ""), wait.ReplaceAllString(want.(string), "")
		}
		if member == "retry_after_ms" && ok {
			if ms, isNumber := got.(float64); isNumber && ms > 0 && ms <= 10_000 {
				continue
			}
		}
		if !ok || got != want {
			t.Errorf("the README shows %s %v, and the service answers %v", member, want, got)
		}
	}
}

// command returns the only block of shell commands in the page that contains the words.
func command(t *testing.T, page, words string) string {
	t.Helper()
	var found []string
	for _, c := range snippets(t, page, "sh") {
		if strings.Contains(c, words) {
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s has %d blocks of commands with %q, want 1", page, len(found), words)
	}
	return found[0]
}

// TestSeveralProcesses runs two servers on one Redis by the commands of docs/redis.md, except
// for the three addresses: those ports may be in use here.
func TestSeveralProcesses(t *testing.T) {
	servers, requests := command(t, "docs/redis.md", "make build"), command(t, "docs/redis.md", `"bob"`)
	one, two, bin := freeAddress(t), freeAddress(t), t.TempDir()
	program.Path(t) // compiles; make build links
	ours := strings.NewReplacer("127.0.0.1:6379", redistest.Start(t).Addr, "127.0.0.1:7070", one, "127.0.0.1:7071", two,
		"bin/weir", filepath.Join(bin, "weir"))
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", ours.Replace(servers)+"wait")
	cmd.Env = append(environment(), "BIN="+bin)
	runUntilReady(t, cmd, one, two)

	// On a crowded machine an answer may be degraded. The test then retries with other
	// users.
	for try := 0; ; try++ {
		ask := strings.NewReplacer("curl ", "curl -s ", `"bob"`, fmt.Sprintf(`"bob%d"`, try)).Replace(ours.Replace(requests))
		got := answers(t, shell(t, ".", ask))
		if len(got) == 2 && (got[0].Status == 503 || got[1].Status == 503) && try < 50 {
			continue
		}
		if len(got) != 2 || !got[0].Allowed || got[1].Allowed || got[1].Remaining != 4 {
			t.Errorf("got %+v, want the first allowed, the second denied, and 4 left", got)
		}
		return
	}
}

// TestReadmeOneShotCommands runs the README's `go run` commands.
func TestReadmeOneShotCommands(t *testing.T) {
	report := filepath.Join(t.TempDir(), "report.html")
	for _, want := range []struct{ command, out string }{
		{"weir snippet nginx", "proxy_pass http://weir/gate/search?address.ip=Weir-Key"},
		{"weir suggest", "\n40 per minute per ip\n"},
	} {
		script := strings.Replace(command(t, "README.md", want.command), "report.html", report, 1)
		if out := shell(t, root, script); !strings.Contains(out, want.out) {
			t.Errorf("%s\nprints\n%s\nwant %s", script, out, want.out)
		}
	}
	if page, err := os.ReadFile(report); err != nil || !strings.Contains(string(page), "40 per minute per ip") {
		t.Errorf("weir suggest wrote no report with its suggestion: %v", err)
	}
}

// TestReadmeCheckout uses the module from a program beside it, offline, with the README's
// command only.
func TestReadmeCheckout(t *testing.T) {
	edit := command(t, "README.md", "go mod edit")
	checkout := must.Get(filepath.Abs(root))(t)
	script := strings.Replace(edit, "=../weir", "="+checkout, 1)
	if script == edit {
		t.Fatalf("no =../weir in the README's %q", edit)
	}
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(read(t, "examples/push/main.go")), 0o666))
	shell(t, dir, "go mod init example.com/program")
	shell(t, dir, script)
	shell(t, dir, "GOFLAGS=-mod=mod go build -o program .")
	if _, err := os.Stat(filepath.Join(dir, "go.sum")); err == nil {
		t.Errorf("the program needs a go.sum:\n%s", shell(t, dir, "cat go.sum"))
	}
	if out := shell(t, dir, "./program"); !strings.Contains(out, "push 12 sent") {
		t.Errorf("the program printed:\n%s", out)
	}
}

// answer is what this test reads of an answer to /v1/check.
type answer struct {
	Allowed   bool  `json:"allowed"`
	Remaining int64 `json:"remaining"`
	Status    int   `json:"status"` // HTTP status of a problem document
	text      string
}

func answers(t *testing.T, out string) []answer {
	t.Helper()
	var all []answer
	for line := range strings.Lines(out) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		var a answer
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatalf("not an answer: %q: %v", line, err)
		}
		a.text = strings.TrimSpace(line)
		all = append(all, a)
	}
	return all
}

// shell runs a script in dir and returns its standard output.
func shell(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(environment(), "GOPROXY=off")
	return output(t, cmd)
}

// runUntilReady runs a command until the test ends, and returns once it serves on
// all the addresses.
func runUntilReady(t *testing.T, cmd *exec.Cmd, addresses ...string) {
	t.Helper()
	cmd.Dir = root
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the command and its children
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	must.Do(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		<-ended
	})
	tooLong := time.After(3 * time.Minute)
	for {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("%s ended: %v\n%s", cmd, err, output.String())
		case <-tooLong:
			t.Fatalf("%s does not answer on http://%s/readyz", cmd, addresses[0])
		case <-time.After(50 * time.Millisecond):
			for len(addresses) > 0 && isReady(addresses[0]) {
				addresses = addresses[1:]
			}
			if len(addresses) == 0 {
				return
			}
		}
	}
}

func isReady(address string) bool {
	response, err := http.Get("http://" + address + "/readyz")
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// freeAddress returns an address that was free a moment ago. A build may come before its
// use, so the port is one that no test of another package gets meanwhile.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", 4000+rand.IntN(3000))
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}

// environment returns our environment without the variables of an outer make.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS=")
	})
}
