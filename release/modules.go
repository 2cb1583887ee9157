package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	modules "golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	modzip "golang.org/x/mod/zip"
)

// released are the directories of the modules with a version, each after those that it requires.
// Benchmarks, examples, tests in a browser and this program are modules without one.
var released = []string{".", "weirredis/goredisconn", "weirredis/rueidisconn", "weirgrpc", "cmd/weir"}

func modulePath(dir string) string { return path.Join(module, dir) }

// tagName returns the tag that the go command looks for: cmd/weir/v0.1.0.
func (s *source) tagName(dir string) string { return path.Join(dir, s.version) }

// releaseModules writes the go.mod and go.sum files of the release, commits and tags them, and
// fills a module proxy.
//
// In the repository a module finds its siblings by replace lines. The go command refuses to install
// a program with such lines in its go.mod. The users of a library would get version v0.0.0 of its
// siblings. So a released module requires its siblings in the version of the release, and its
// go.sum has their checksums.
func (s *source) releaseModules() error {
	sums := map[string]string{} // lines of go.sum, by module
	for _, dir := range released {
		if err := s.releaseModule(dir, sums); err != nil {
			return fmt.Errorf("module %s: %w", dir, err)
		}
	}
	if _, err := s.git("commit", "--quiet", "--allow-empty", "-m", "Release "+s.version); err != nil {
		return err
	}
	for _, dir := range released {
		if _, err := s.git("tag", "-m", "weir "+s.version, s.tagName(dir)); err != nil {
			return err
		}
	}
	return nil
}

// releaseModule writes the go.mod and go.sum of a module, and puts it into the proxy. sums
// has those of the modules before it, and gets its own.
func (s *source) releaseModule(dir string, sums map[string]string) error {
	name := filepath.Join(s.dir, dir, "go.mod")
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	mod, err := modfile.Parse(name, text, nil)
	if err != nil {
		return err
	}
	required, err := s.requireSiblings(mod, sums)
	if err != nil {
		return err
	}
	if text, err = mod.Format(); err != nil {
		return err
	}
	if err := os.WriteFile(name, text, 0o644); err != nil {
		return err
	}
	if err := addSums(filepath.Join(s.dir, dir, "go.sum"), required); err != nil {
		return err
	}
	if _, err := s.git("add", "--all", "."); err != nil {
		return err
	}
	tree, err := s.git("write-tree")
	if err != nil {
		return err
	}
	sums[modulePath(dir)], err = s.serve(dir, tree, text)
	return err
}

// requireSiblings replaces the replace lines of a module by versions, and returns the lines
// that its go.sum needs.
func (s *source) requireSiblings(mod *modfile.File, sums map[string]string) (lines []string, err error) {
	for _, r := range slices.Clone(mod.Require) {
		sibling := r.Mod.Path
		if sibling != module && !strings.HasPrefix(sibling, module+"/") {
			continue
		}
		if sums[sibling] == "" {
			return nil, fmt.Errorf("it requires %s, which has no version; "+
				"add it to the list of released modules, before this one", sibling)
		}
		lines = append(lines, sums[sibling])
		if err := errors.Join(mod.AddRequire(sibling, s.version), mod.DropReplace(sibling, "")); err != nil {
			return nil, err
		}
	}
	mod.Cleanup()
	if len(mod.Replace) > 0 {
		return nil, fmt.Errorf("it replaces %s, so no go command would install it", mod.Replace[0].Old.Path)
	}
	return lines, nil
}

// addSums adds lines to a go.sum file.
func addSums(name string, added []string) error {
	if len(added) == 0 {
		return nil
	}
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.WriteFile(name, []byte(string(text)+strings.Join(added, "")), 0o644)
}

// proxy returns the directory of the module proxy.
func (s *source) proxy() string { return filepath.Join(s.temp, "proxy") }

// serve puts a module into the proxy, with the files of a tree of git and the given go.mod. It
// returns the lines of the module in a go.sum file.
func (s *source) serve(dir, tree string, mod []byte) (sums string, err error) {
	version := modules.Version{Path: modulePath(dir), Version: s.version}
	versions := filepath.Join(s.proxy(), filepath.FromSlash(version.Path), "@v")
	if err := os.MkdirAll(versions, 0o755); err != nil {
		return "", err
	}
	subdir := strings.TrimPrefix(dir, ".")
	var zipped bytes.Buffer
	if err := modzip.CreateFromVCS(&zipped, version, s.dir, tree, subdir); err != nil {
		return "", err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{s.version, s.time})
	if err != nil {
		return "", err
	}
	for name, data := range map[string][]byte{
		"list":              []byte(s.version + "\n"),
		s.version + ".info": info,
		s.version + ".mod":  mod,
		s.version + ".zip":  zipped.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(versions, name), data, 0o644); err != nil {
			return "", err
		}
	}
	return sumLines(version, zipped.Bytes(), mod)
}

// sumLines returns the two lines of a module in go.sum.
func sumLines(version modules.Version, zipped, mod []byte) (string, error) {
	open := func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(mod)), nil }
	modSum, err := dirhash.Hash1([]string{"go.mod"}, open)
	if err != nil {
		return "", err
	}
	files, err := zip.NewReader(bytes.NewReader(zipped), int64(len(zipped)))
	if err != nil {
		return "", err
	}
	var names []string
	for _, f := range files.File {
		names = append(names, f.Name)
	}
	sum, err := dirhash.Hash1(names, func(name string) (io.ReadCloser, error) { return files.Open(name) })
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %s %s\n%[1]s %[2]s/go.mod %[4]s\n", version.Path, version.Version, sum, modSum), nil
}

// tag makes the commit of a release and its tags in the repository, and prints how they are
// published. No branch moves.
func tag(w io.Writer, repo, version string) error {
	return inSource(repo, version, func(s *source) error {
		fetch := []string{"fetch", "--quiet", "--no-tags", s.dir}
		var names []string
		for _, dir := range released {
			name := s.tagName(dir)
			names = append(names, name)
			fetch = append(fetch, "refs/tags/"+name+":refs/tags/"+name)
		}
		if _, err := git(repo, fetch...); err != nil {
			return fmt.Errorf("no tag was made: %w", err)
		}
		fmt.Fprintf(w, "git push --atomic origin %s\n", strings.Join(names, " "))
		return nil
	})
}
