package needs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Modules declares npm, and returns a copy of the directory with the node_modules of its
// package-lock.json. They come from npm's cache or its registry, and are kept in the user's cache:
// node_modules holds a link to each. So a test may add packages of its own beside them.
func Modules(t testing.TB, dir string) (installed string) {
	t.Helper()
	npm := Program(t, "npm")
	kept, err := keptModules(t, npm, dir)
	if err != nil {
		t.Fatal(err)
	}
	installed = t.TempDir()
	if err := os.CopyFS(installed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	modules := filepath.Join(installed, "node_modules")
	if err := errors.Join(os.RemoveAll(modules), link(filepath.Join(kept, "node_modules"), modules)); err != nil {
		t.Fatal(err)
	}
	return installed
}

// link makes a directory with a link to each entry of another.
func link(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	for _, entry := range entries {
		if err := os.Symlink(filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// keptModules returns the directory in the user's cache with the packages of a package-lock.json, and
// installs them as a whole if it is missing.
func keptModules(t testing.TB, npm, dir string) (kept string, err error) {
	t.Helper()
	sum := sha256.New()
	files := []string{"package.json", "package-lock.json"}
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		sum.Write(text)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = t.TempDir()
	}
	kept = filepath.Join(cache, "weir-tools", fmt.Sprintf("node-%x", sum.Sum(nil)[:6]))
	if _, err := os.Stat(kept); err == nil {
		return kept, nil
	}
	if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
		return "", err
	}
	partial, err := os.MkdirTemp(filepath.Dir(kept), "node-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(partial)
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(partial, name), text, 0o644)
		}
		if err != nil {
			return "", err
		}
	}
	if out, err := runNPM(npm, partial); err != nil {
		if unreachable(out) {
			missing(t, "the npm packages of "+dir+" are not in npm's cache and its registry is unreachable; "+
				"run the test once with a network")
		}
		return "", fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	if err := os.Rename(partial, kept); err != nil && !errors.Is(err, fs.ErrExist) { // another test may be first
		return "", err
	}
	return kept, os.Chmod(kept, 0o755)
}

// runNPM installs the packages of a package-lock.json, and returns its output. It tries again,
// because npm itself does not after each failure of the network.
func runNPM(npm, dir string) (out string, err error) {
	for range 3 {
		cmd := exec.Command(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
		cmd.Dir = dir
		printed, failed := cmd.CombinedOutput()
		out, err = string(printed), failed
		if err == nil {
			break
		}
		time.Sleep(time.Second) // the registry may be busy
	}
	return out, err
}

// unreachable reports whether npm printed an error of the network.
func unreachable(out string) bool {
	for _, code := range []string{"ENOTCACHED", "ENOTFOUND", "ECONNREFUSED", "ETIMEDOUT", "ENETUNREACH", "EAI_AGAIN"} {
		if strings.Contains(out, code) {
			return true
		}
	}
	return false
}
