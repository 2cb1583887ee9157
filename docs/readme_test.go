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

	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/internal/testkit/redistest"
)

// TestReadmeQuickStart runs the README's commands unchanged except for the address: `make
// run` takes 7070, which may be in use here. It waits as long as the README does.
func TestReadmeQuickStart(t *testing.T) {
	needs.Time(t)
	commands := snippets(t, "README.md", "sh")
	if len(commands) < 3 || commands[0] != "make run\n" {
		t.Fatalf("the README's commands begin %q, want make run, eleven requests, one more", commands)
	}
	url := "http://" + makeRun(t)
	ask := func(commands string) []answer {
		script := strings.ReplaceAll(commands, "http://127.0.0.1:7070", url)
		if script == commands {
			t.Fatalf("no http://127.0.0.1:7070 in the README's %q", commands)
		}
		return answers(t, shell(t, ".", script))
	}

	eleven := ask(commands[1])
	if len(eleven) != 11 {
		t.Fatalf("the loop printed %d answers, want 11", len(eleven))
	}
	for i, a := range eleven {
		if want := i < 10; a.Allowed != want {
			t.Errorf("answer %d: allowed %t, want %t", i+1, a.Allowed, want)
		}
	}
	if wait := eleven[10].RetryAfterMS; wait <= 0 || wait > 10_000 {
		t.Errorf("the denial has retry_after_ms %d, want 1 … 10000", wait)
	}
	checkShownAnswer(t, eleven[10])
	if then := ask(commands[2]); len(then) != 1 || !then[0].Allowed {
		t.Errorf("after the wait the answer is %+v, want one that is allowed", then)
	}
}

// checkShownAnswer compares the JSON answer in the README with a real one: instants and
// waits differ, all else is equal.
func checkShownAnswer(t *testing.T, real answer) {
	t.Helper()
	shown := snippets(t, "README.md", "json")
	if len(shown) != 1 {
		t.Fatalf("the README has %d JSON answers, want 1", len(shown))
	}
	varying := regexp.MustCompile(`"at":"[^"]*"|"(retry_after|reset_after|next)_(ms|us)":[0-9]+|room again in [^"]*`)
	got, want := varying.ReplaceAllString(strings.TrimSpace(shown[0]), ""), varying.ReplaceAllString(real.text, "")
	if got != want {
		t.Errorf("the README shows\n%s\nand the service answers\n%s", shown[0], real.text)
	}
}

// TestReadmeSeveralProcesses runs two servers on one Redis by the README's commands
// as they stand, but for the three addresses: those ports may be in use here.
func TestReadmeSeveralProcesses(t *testing.T) {
	commands := snippets(t, "README.md", "sh")
	first := slices.IndexFunc(commands, func(c string) bool { return strings.HasPrefix(c, "make build\n") })
	if first < 0 || first+1 >= len(commands) {
		t.Fatalf("the README's commands %q lack make build and two servers, then two questions", commands)
	}
	one, two, bin := freeAddress(t), freeAddress(t), t.TempDir()
	ours := strings.NewReplacer("127.0.0.1:6379", redistest.Start(t).Addr, "127.0.0.1:7070", one, "127.0.0.1:7071", two,
		"bin/weir", filepath.Join(bin, "weir"))
	servers := exec.Command("bash", "-euo", "pipefail", "-c", ours.Replace(commands[first])+"wait")
	servers.Env = append(environment(), "BIN="+bin)
	runUntilReady(t, servers, one, two)

	// On a crowded machine an answer may be degraded. The test then retries with other
	// users.
	for try := 0; ; try++ {
		ask := strings.NewReplacer("curl ", "curl -s ", `"bob"`, fmt.Sprintf(`"bob%d"`, try)).Replace(ours.Replace(commands[first+1]))
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

// TestReadmePrograms runs the README's whole Go programs. A block of text behind one is its
// output.
func TestReadmePrograms(t *testing.T) {
	blocks := blocksOfPage(read(t, "README.md"))
	for i, b := range blocks {
		if b.language != "go" || !strings.HasPrefix(b.text, "package main\n") || i+1 == len(blocks) || blocks[i+1].language != "text" {
			continue
		}
		file := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(file, []byte(b.text), 0o666); err != nil {
			t.Fatal(err)
		}
		if got := shell(t, root, "go run "+file); got != blocks[i+1].text {
			t.Errorf("the README shows\n%s\nand its program prints\n%s", blocks[i+1].text, got)
		}
	}
}

// TestReadmeOneShotCommands runs the README's `go run` commands.
func TestReadmeOneShotCommands(t *testing.T) {
	for _, want := range []struct{ command, out string }{
		{"weir snippet nginx", "proxy_pass http://weir/gate/search?address.ip=Weir-Key"},
		{"weir replay", `{"at_us":1000000,"allowed":true,"granted":1,"remaining":4,`},
	} {
		commands := snippets(t, "README.md", "sh")
		i := slices.IndexFunc(commands, func(c string) bool { return strings.Contains(c, want.command) })
		if i < 0 {
			t.Fatalf("the README has no command with %s", want.command)
		}
		if out := shell(t, root, commands[i]); !strings.Contains(out, want.out) {
			t.Errorf("%s\nprints\n%s\nwant %s", commands[i], out, want.out)
		}
	}
}

// TestReadmeCheckout uses the module from a program beside it, offline, with the README's
// command only.
func TestReadmeCheckout(t *testing.T) {
	var edit string
	for _, command := range snippets(t, "README.md", "sh") {
		if strings.HasPrefix(command, "go mod edit") {
			edit = command
		}
	}
	checkout, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	script := strings.Replace(edit, "=../weir", "="+checkout, 1)
	if script == edit {
		t.Fatalf("no =../weir in the README's %q", edit)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(read(t, "examples/push/main.go")), 0o666); err != nil {
		t.Fatal(err)
	}
	shell(t, dir, "go mod init example.com/program")
	shell(t, dir, script)
	shell(t, dir, "go build -o program .")
	if _, err := os.Stat(filepath.Join(dir, "go.sum")); err == nil {
		t.Errorf("the program needs a go.sum:\n%s", shell(t, dir, "cat go.sum"))
	}
	if out := shell(t, dir, "./program"); !strings.Contains(out, "push 12 sent") {
		t.Errorf("the program printed:\n%s", out)
	}
}

// answer is what this test reads of an answer to /v1/check.
type answer struct {
	Allowed      bool  `json:"allowed"`
	RetryAfterMS int64 `json:"retry_after_ms"`
	Remaining    int64 `json:"remaining"`
	Status       int   `json:"status"` // of a problem document
	text         string
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
	cmd.Env = append(environment(), "GOPROXY=off", "GOFLAGS=-mod=mod")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s\n%v\n%s", script, err, stderr.String())
	}
	return string(out)
}

// makeRun runs `make run` on a free port until the test ends, and returns its
// address once it is ready.
func makeRun(t *testing.T) (address string) {
	t.Helper()
	address = freeAddress(t)
	cmd := exec.Command("make", "run", "LISTEN="+address, "BIN="+t.TempDir())
	cmd.Env = environment()
	runUntilReady(t, cmd, address)
	return address
}

// runUntilReady runs a command until the test ends, and returns once it serves on
// all the addresses.
func runUntilReady(t *testing.T, cmd *exec.Cmd, addresses ...string) {
	t.Helper()
	cmd.Dir = root
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the command and its children
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
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
