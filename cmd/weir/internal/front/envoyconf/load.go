package envoyconf

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirlimit/weir/policy"
)

// MaxFiles is the largest number of files in a directory.
const MaxFiles = 10_000

// Load reads the configuration at path: a file, or a directory with all *.yaml and *.yml
// files in it and in its subdirectories. Names that begin with a dot are skipped, so a
// ConfigMap that Kubernetes mounts is read once. The error is a *policy.Error, and the
// Config is then nil.
func Load(path string) (*Config, error) {
	c := &Config{Source: path, byName: map[string]*Domain{}}
	if err := eachFile(path, c.add); err != nil {
		return nil, err
	}
	return c, nil
}

// Fingerprint returns a hash of all that Load would read.
func Fingerprint(path string) ([]byte, error) {
	sum := sha256.New()
	err := eachFile(path, func(name string, src []byte) error {
		fmt.Fprintf(sum, "%d:%s%d:", len(name), name, len(src))
		sum.Write(src)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return sum.Sum(nil), nil
}

// Parse reads one file. The name is for messages.
func Parse(name string, src []byte) (*Config, error) {
	c := &Config{Source: name, byName: map[string]*Domain{}}
	if err := c.add(name, src); err != nil {
		return nil, err
	}
	return c, nil
}

// eachFile calls add with the name and content of each file at path, until an error.
func eachFile(path string, add func(name string, src []byte) error) error {
	names, err := list(path)
	if err != nil {
		return err
	}
	for _, name := range names {
		src, err := policy.ReadFile(name)
		if err != nil {
			return err
		}
		if err := add(name, src); err != nil {
			return err
		}
	}
	return nil
}

// list returns the files at path, sorted by name.
func list(path string) (names []string, err error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, nil // reading it reports the error
	}
	// The separator makes WalkDir follow a link at path. Links below it are not followed:
	// they may form a cycle.
	root := path + string(filepath.Separator)
	err = filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		switch ext := filepath.Ext(name); {
		case err != nil:
			return &policy.Error{File: filepath.Clean(name), Problem: fmt.Sprintf("the directory cannot be read: %v", err), Next: "check the permissions"}
		case name != root && strings.HasPrefix(e.Name(), "."):
			if e.IsDir() {
				return fs.SkipDir
			}
		case !e.IsDir() && (ext == ".yaml" || ext == ".yml"):
			names = append(names, name)
			if len(names) > MaxFiles {
				return &policy.Error{File: filepath.Dir(name), Problem: fmt.Sprintf("more than %d files", MaxFiles), Next: "name another directory"}
			}
		}
		return nil
	})
	if err == nil && len(names) == 0 {
		err = &policy.Error{File: path, Problem: "there is no *.yaml or *.yml file in the directory",
			Next: "name the directory that holds the domains, or one file"}
	}
	slices.Sort(names)
	return names, err
}
