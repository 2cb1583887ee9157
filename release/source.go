package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// module is the path of the root module, which the others begin with.
const module = "github.com/weirlimit/weir"

// A source is a clone of the repository. Its one new commit, on top of the commit that is
// released, has the go.mod files of the release; see releaseModules.
type source struct {
	version string    // such as v0.1.0
	commit  string    // the commit that is released
	time    time.Time // time of the commit; the only clock of a release
	temp    string    // a directory for everything that is not kept
	dir     string    // directory of the clone
}

// number returns the version as packages write it: 0.1.0.
func (s *source) number() string { return strings.TrimPrefix(s.version, "v") }

// name returns the name of a file of the release: weir_0.1.0 and a suffix.
func (s *source) name(suffix string) string { return "weir_" + s.number() + suffix }

// read returns a file of the clone.
func (s *source) read(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(s.dir, name))
}

// versionForm rejects pre-releases, which Go, Debian, npm and Python write in four ways. It rejects
// version 2 and later, because their modules have other paths.
var versionForm = regexp.MustCompile(`^v[01]\.(0|[1-9]\d*)\.(0|[1-9]\d*)$`)

// inSource calls do with a source, and removes its directories afterwards.
func inSource(repo, version string, do func(*source) error) error {
	if !versionForm.MatchString(version) {
		return fmt.Errorf("%q is not a version of a release; "+
			"write VERSION=v0.1.0, with three numbers, the first 0 or 1", version)
	}
	if err := wantClean(repo); err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "weir-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	s := &source{version: version, temp: temp, dir: filepath.Join(temp, "source")}
	if err := s.clone(repo); err != nil {
		return err
	}
	if err := s.wantClientVersions(); err != nil {
		return err
	}
	if err := s.releaseModules(); err != nil {
		return err
	}
	return do(s)
}

// wantClean rejects a work tree that differs from its commit.
func wantClean(repo string) error {
	status, err := git(repo, "status", "--porcelain")
	if err != nil {
		return err
	}
	if status == "" {
		return nil
	}
	lines := strings.Split(status, "\n")
	_, first, _ := strings.Cut(strings.TrimSpace(lines[0]), " ")
	return fmt.Errorf("the work tree has changes that are not committed, the first of %d in %s; "+
		"a release is built from a commit, so commit them or put them aside with git stash -u",
		len(lines), strings.TrimSpace(first))
}

// clone makes the clone, which shares the objects of the repository.
func (s *source) clone(repo string) error {
	commit, err := git(repo, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	seconds, err := git(repo, "show", "--no-patch", "--format=%ct", commit)
	if err != nil {
		return err
	}
	epoch, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return err
	}
	s.commit, s.time = commit, time.Unix(epoch, 0).UTC()
	clone := []string{"clone", "--quiet", "--shared", "--no-checkout", "--no-tags", ".", s.dir}
	if _, err := git(repo, clone...); err != nil {
		return err
	}
	_, err = s.git("checkout", "--quiet", "--detach", commit)
	return err
}

// wantClientVersions rejects a version that differs from those in the sources of the clients.
func (s *source) wantClientVersions() error {
	for _, c := range []struct{ file, pattern string }{
		{"clients/node/package.json", `(?m)^  "version": "(.+)",$`},
		{"clients/python/src/weirlimit/__init__.py", `(?m)^__version__ = "(.+)"$`},
	} {
		text, err := s.read(c.file)
		if err != nil {
			return err
		}
		found := regexp.MustCompile(c.pattern).FindSubmatch(text)
		if found == nil || string(found[1]) != s.number() {
			return fmt.Errorf("%s does not have version %s; change it there and commit it", c.file, s.number())
		}
	}
	return nil
}

// email is the address of the packages and of the commit of a release.
const email = "weirlimit@users.noreply.github.com"

// git runs git in the clone, with nothing of the user's configuration. Each commit and tag that
// it makes has the time of the commit that is released.
func (s *source) git(args ...string) (out string, err error) {
	at := strconv.FormatInt(s.time.Unix(), 10) + " +0000"
	return output(s.dir, []string{
		"GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Weir", "GIT_AUTHOR_EMAIL=" + email, "GIT_AUTHOR_DATE=" + at,
		"GIT_COMMITTER_NAME=Weir", "GIT_COMMITTER_EMAIL=" + email, "GIT_COMMITTER_DATE=" + at,
	}, "git", args...)
}

// git runs git in a directory of the user.
func git(dir string, args ...string) (out string, err error) {
	return output(dir, nil, "git", args...)
}

// output runs a program and returns its output without the last line feed. env has variables beside
// those of this process.
func output(dir string, env []string, name string, args ...string) (out string, err error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimRight(string(stdout), "\n"), nil
}
