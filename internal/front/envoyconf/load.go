package envoyconf

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// MaxBytes is the largest size of a file, 8 MiB.
	MaxBytes = 8 << 20
	// MaxFiles is the largest number of files in a directory.
	MaxFiles = 10_000
)

// Options configure how a configuration is read.
type Options struct {
	// MergeDomains allows several files for one domain, as MERGE_DOMAIN_CONFIG does in the
	// reference. Otherwise that is an error.
	MergeDomains bool
}

// Load reads the configuration at path: a file, or a directory with all *.yaml and *.yml
// files in it and in its subdirectories. Names that begin with a dot are skipped, so a
// ConfigMap that Kubernetes mounts is read once. The error is an *Error, and the Config
// is then nil.
func Load(path string, o Options) (*Config, error) {
	names, err := list(path)
	if err != nil {
		return nil, err
	}
	b := newBuilder(path, o)
	for _, name := range names {
		src, err := read(name)
		if err != nil {
			return nil, err
		}
		if err := b.add(name, src); err != nil {
			return nil, err
		}
	}
	return b.config, nil
}

// Fingerprint returns a hash of all that Load would read.
func Fingerprint(path string) ([]byte, error) {
	names, err := list(path)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	for _, name := range names {
		src, err := read(name)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(sum, "%d:%s%d:", len(name), name, len(src))
		sum.Write(src)
	}
	return sum.Sum(nil), nil
}

// Parse reads one file. The name is for messages.
func Parse(name string, src []byte) (*Config, error) {
	if len(src) > MaxBytes {
		return nil, tooLong(name)
	}
	b := newBuilder(name, Options{})
	if err := b.add(name, src); err != nil {
		return nil, err
	}
	return b.config, nil
}

// list returns the files at path, sorted by name.
func list(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	names, err := listDirectory(path, nil)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, &Error{File: path, Problem: "there is no *.yaml or *.yml file in the directory",
			Next: "name the directory that holds the domains, or one file"}
	}
	slices.Sort(names)
	return names, nil
}

func listDirectory(dir string, names []string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, unreadable(dir, err)
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if e.IsDir() { // links are not followed: they may form a cycle
			if names, err = listDirectory(name, names); err != nil {
				return nil, err
			}
			continue
		}
		if ext := filepath.Ext(name); ext == ".yaml" || ext == ".yml" {
			names = append(names, name)
		}
		if len(names) > MaxFiles {
			return nil, &Error{File: dir, Problem: fmt.Sprintf("more than %d files", MaxFiles), Next: "name another directory"}
		}
	}
	return names, nil
}

// read returns the content of the file.
func read(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, unreadable(name, err)
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return nil, unreadable(name, err)
	}
	if len(src) > MaxBytes {
		return nil, tooLong(name)
	}
	return src, nil
}

func tooLong(name string) error {
	return &Error{File: name, Problem: fmt.Sprintf("the file is larger than %d MiB", MaxBytes>>20), Next: "split it by domain"}
}

func unreadable(path string, err error) error {
	e := &Error{File: path, Problem: fmt.Sprintf("it cannot be read: %v", err), Next: "check the path and the permissions", cause: err}
	var bare *fs.PathError
	if errors.As(err, &bare) {
		e.Problem = fmt.Sprintf("it cannot be read: %v", bare.Err)
	}
	return e
}
