package needs

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Python declares Python 3, and returns its path and a directory with the packages of a file of
// requirements, for PYTHONPATH. The packages are kept in the user's cache. Where they cannot be
// had, the directory is "": tests in Python skip by themselves, each with its package.
func Python(t testing.TB, requirements string) (python, packages string) {
	t.Helper()
	python = Program(t, "python3")
	text, err := os.ReadFile(requirements)
	if err != nil {
		t.Fatal(err)
	}
	version, err := exec.Command(python, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = t.TempDir()
	}
	sum := sha256.Sum256(append(text, version...))
	packages = filepath.Join(cache, "weir-tools", fmt.Sprintf("python-%x", sum[:6]))
	if _, err := os.Stat(packages); err == nil {
		return python, packages
	}
	if err := install(python, requirements, packages); err != nil {
		t.Logf("the packages of %s are not installed: %v", requirements, err)
		return python, ""
	}
	return python, packages
}

// install puts the packages of a file of requirements into a new directory, as a whole.
func install(python, requirements, packages string) error {
	if err := os.MkdirAll(filepath.Dir(packages), 0o755); err != nil {
		return err
	}
	partial, err := os.MkdirTemp(filepath.Dir(packages), "python-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(partial)
	pip := exec.Command(python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--target", partial,
		"--only-binary=:all:", "--retries", "5", "--timeout", "15", "--requirement", requirements)
	if out, err := pip.CombinedOutput(); err != nil {
		return fmt.Errorf("pip: %w\n%s", err, out)
	}
	if err := os.Rename(partial, packages); err != nil && !os.IsExist(err) { // another test may be first
		return err
	}
	return os.Chmod(packages, 0o755)
}
