package main

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirlimit/weir/internal/filewatch"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// TestSecretsAreReadAgain: after SIGHUP and after a change of the file, secrets are read again,
// with and without a policy file. An invalid secret changes nothing. The log has the reason and
// not the secret.
func TestSecretsAreReadAgain(t *testing.T) {
	const first, second, third = "the-first-of-the-tokens", "the-second-of-the-tokens", "the-third-of-the-tokens"
	const linked, bad = "the-token-behind-a-link", "too-short"
	path := filepath.Join(t.TempDir(), "token")
	set := func(p *process, text string) {
		t.Helper()
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		if p != nil {
			must.Do(t, p.Process.Signal(syscall.SIGHUP))
		}
	}
	set(nil, first)
	p := startServe(t, "--token-file", path)
	opens := func(token string) bool {
		r, err := http.NewRequest("GET", "http://"+p.addr+"/v1/policies", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode == 200
	}
	if !opens(first) || opens(second) {
		t.Fatal("at first the first token must open, and the second must not")
	}
	set(p, second)
	must.Await(t, "the second token opens", func() bool { return opens(second) })
	if opens(first) {
		t.Error("the first token still opens")
	}
	set(p, bad)
	p.awaitOutput(t, "a changed secret or certificate is invalid")
	if !opens(second) {
		t.Error("a bad file has taken the good token away")
	}
	set(nil, third)
	must.Await(t, "a token opens that was written without a signal", func() bool { return opens(third) })
	target := filepath.Join(t.TempDir(), "token")
	must.Do(t, os.WriteFile(target, []byte(linked), 0o600))
	must.Do(t, os.Symlink(target, path+".link"))
	must.Do(t, os.Rename(path+".link", path))
	must.Await(t, "a token opens behind a link in place of the file", func() bool { return opens(linked) })
	p.terminate(t)
	talk := p.ended(t)
	for _, token := range []string{first, second, third, linked, bad} {
		if strings.Contains(talk, token) {
			t.Errorf("the log holds the token %s:\n%s", token, talk)
		}
	}
}

// TestEndDoesNotWaitForAReload: a reload that hangs, for example on a disk, does not keep weir
// from ending.
func TestEndDoesNotWaitForAReload(t *testing.T) {
	reloading, hangs := make(chan bool), make(chan bool)
	defer close(hangs)
	r := &filewatch.Watcher{
		Read:    func() ([]byte, error) { reloading <- true; <-hangs; return nil, nil },
		Changed: func([]byte, error) error { return nil },
	}
	hangups := make(chan os.Signal, 1)
	go reloadOnHangup(hangups, []*filewatch.Watcher{r}, slog.New(slog.DiscardHandler))
	hangups <- syscall.SIGHUP
	<-reloading
	close(hangups)
}
