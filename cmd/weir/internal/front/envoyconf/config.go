// Package envoyconf reads the configuration of Envoy's reference rate limit service,
// github.com/envoyproxy/ratelimit, unchanged: YAML files with a domain and a tree of
// descriptors each. It finds the rule for a request's descriptor with the reference's
// precedence. Package cmd/weir/internal/front/envoy decides by the rule.
//
// A Config never changes, so a reload can replace it while requests are in flight. One
// bad file rejects the whole new Config.
//
// Trade-off: anchors, merge keys, yes and no are read as in the reference, within bounds of
// size. Policy files have none of them, but files of the reference do. Files that the
// reference rejects are rejected with file, line and column; words that it silently ignores
// are a warning.
package envoyconf

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/policy"
)

// Rule is one descriptor of the configuration with a rate_limit.
type Rule struct {
	Path  string // its name in the reference's metrics: domain.key_value.key
	Index int    // in Domain.Rules

	Requests   uint32        // per period; 0 denies everything
	Unit       Unit          // 0 with Unlimited
	Multiplier uint32        // units in the period; 0 = not given, which is 1
	Window     time.Duration // the period; 0 with Unlimited

	Unlimited bool     // always granted, not counted
	Shadow    bool     // decided, but always granted
	Quota     bool     // denies a request only when all rules with Quota do
	Name      string   // its name in answers and in Replaces
	Replaces  []string // names of rules that this rule disables for a request

	// History is the limit name of the rule's histories within its domain. Rules for the
	// same keys share it, so a new rule for one value continues its count.
	History string
	// Varying are the indices of the entries that have a history for each value: all
	// except those that match a wildcard with share_threshold.
	Varying []int

	Keys []string // the keys of the descriptors on its path
}

// Domain holds the rules of one domain.
type Domain struct {
	Name   string
	Policy string  // the policy name of its histories; no policy file can have it
	Rules  []*Rule // in the order of the file
	root   node
}

// Config holds the rules of all domains. It never changes.
type Config struct {
	Source   string    // its path, for messages
	Files    int       // number of files read
	Domains  []*Domain // sorted by the names of the files
	Warnings []string  // words without effect, and files that are not read because of their names

	options Options
	byName  map[string]*Domain
	bytes   int // the size of all files so far, with aliases followed
}

// Options select how files are read. The zero value reads them as the reference does by default.
type Options struct {
	MergeDomains bool // files with one domain form it together, instead of an error
}

// Domain returns the domain of that name, or nil. A nil Config has none.
func (c *Config) Domain(name string) *Domain {
	if c == nil {
		return nil
	}
	return c.byName[name]
}

// Rules returns the number of rules in all domains.
func (c *Config) Rules() int {
	n := 0
	for _, d := range c.Domains {
		n += len(d.Rules)
	}
	return n
}

// MaxFiles is the largest number of files in a directory.
const MaxFiles = 10_000

// Load reads the configuration at path: a file, or a directory with all *.yaml and *.yml
// files in it and in its subdirectories. Names that begin with a dot are skipped, so a
// ConfigMap that Kubernetes mounts is read once. A file that is skipped although it may be
// meant is a warning. The error is a *policy.Error, and the Config is then nil.
func Load(path string, o Options) (*Config, error) {
	c := &Config{Source: path, options: o, byName: map[string]*Domain{}}
	files, err := list(path)
	if err != nil {
		return nil, err
	}
	for _, skipped := range files.skipped {
		c.warn("%s", skipped)
	}
	if err := files.each(path, c.add); err != nil {
		return nil, err
	}
	return c, nil
}

// Fingerprint returns a hash of all that Load would read, and of its warnings about names.
func Fingerprint(path string) ([]byte, error) {
	sum := sha256.New()
	files, err := list(path)
	if err != nil {
		return sum.Sum(nil), err
	}
	for _, skipped := range files.skipped {
		fmt.Fprintf(sum, "%d:%s-:", len(skipped), skipped)
	}
	err = files.each(path, func(name string, src []byte) error {
		fmt.Fprintf(sum, "%d:%s%d:", len(name), name, len(src))
		sum.Write(src)
		return nil
	})
	return sum.Sum(nil), err
}

// Parse reads one file. The name is for messages.
func Parse(name string, src []byte) (*Config, error) {
	c := &Config{Source: name, byName: map[string]*Domain{}}
	if err := c.add(name, src); err != nil {
		return nil, err
	}
	return c, nil
}

// listing holds the files at a path.
type listing struct {
	names   []string // of the files to read, sorted
	skipped []string // a warning for each file that may be meant, in the order of the names
}

// each calls add with the name and content of each file at path, until an error.
func (l *listing) each(path string, add func(name string, src []byte) error) error {
	for _, name := range l.names {
		if info, err := os.Stat(name); name != path && err == nil && !info.Mode().IsRegular() {
			return &policy.Error{
				File:    name,
				Problem: "this is a directory, a pipe, a device or a socket, not a file",
				Next:    "remove it, or put a file in its place",
			}
		}
		src, err := enforce.ReadFile(name)
		if err != nil {
			return err
		}
		if err := add(name, src); err != nil {
			return err
		}
	}
	return nil
}

// list returns the files at path.
func list(path string) (*listing, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return &listing{names: []string{path}}, nil // reading it reports the error
	}
	l := &listing{}
	// The separator makes WalkDir follow a link at path. Links below it are not followed:
	// they may form a cycle.
	root := path + string(filepath.Separator)
	err = filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			problem := fmt.Sprintf("the directory cannot be read: %v", err)
			return &policy.Error{
				File:    filepath.Clean(name),
				Problem: problem,
				Next:    "check the permissions",
			}
		case name == root:
			return nil
		case !e.IsDir():
			return l.add(name)
		case strings.HasPrefix(e.Name(), "."):
			return fs.SkipDir
		}
		return nil
	})
	if err == nil && len(l.names) == 0 {
		next := "name the directory that holds the domains, or one file"
		if len(l.skipped) > 0 {
			next += ": " + l.skipped[0]
		}
		err = &policy.Error{
			File:    path,
			Problem: "there is no *.yaml or *.yml file in the directory",
			Next:    next,
		}
	}
	slices.Sort(l.names)
	return l, err
}

// add adds a file below a directory, or the warning that it is skipped.
func (l *listing) add(path string) error {
	name, ext := filepath.Base(path), filepath.Ext(path)
	isYAML := ext == ".yaml" || ext == ".yml"
	switch {
	case strings.HasPrefix(name, ".."): // of a mounted ConfigMap
	case strings.HasPrefix(name, ".") && isYAML:
		l.skip(path, "begins with a dot; rename it, or remove it")
	case strings.HasPrefix(name, "."):
	case !isYAML:
		l.skip(path, "does not end in .yaml or .yml; rename it, or move it out of the directory")
	default:
		l.names = append(l.names, path)
	}
	if len(l.names) > MaxFiles {
		return &policy.Error{
			File:    filepath.Dir(path),
			Problem: fmt.Sprintf("more than %d files", MaxFiles),
			Next:    "name another directory",
		}
	}
	return nil
}

// skip adds a warning, unless there are so many that Config.warn leaves the rest out.
func (l *listing) skip(path, reason string) {
	if len(l.skipped) <= maxWarnings {
		l.skipped = append(l.skipped,
			fmt.Sprintf("%s is not read, because its name %s", path, reason))
	}
}
