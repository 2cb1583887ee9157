package policy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/weirlimit/weir/internal/yamlnode"
)

// MaxBytes is the largest size of a policy file: 256 KiB, some three thousand policies.
const MaxBytes = 256 << 10

// File is a checked policy file.
type File struct {
	Name     string        // of the file, as passed to Parse or Load
	Policies []*Definition // in the order of the file; do not add or rename any
	Tests    []*Test       // in the order of the file
}

// Definition returns the policy of that name, or nil.
func (f *File) Definition(name string) *Definition {
	if i := slices.IndexFunc(f.Policies, func(p *Definition) bool { return p.Name == name }); i >= 0 {
		return f.Policies[i]
	}
	return nil
}

// Parse reads a policy file. The name is for error messages only. The error is an
// [Errors] with all errors of the file; malformed YAML ends at its first error. With an
// error, Parse returns no File.
func Parse(filename string, src []byte) (*File, error) {
	if len(src) > MaxBytes {
		return nil, Errors{{File: filename, Problem: "the file is larger than 256 KiB", Next: "split it, and run one weir for each part"}}
	}
	doc, err := yamlnode.Read(src)
	c := checker{file: filename, doc: doc}
	var f *File
	if err != nil {
		c.fail(err.Offset, err.Next, "%s", err.Problem)
	} else {
		f = c.policyFile(&doc.Root)
	}
	if len(c.faults) > 0 {
		return nil, c.errors()
	}
	return f, nil
}

// Load reads the policy file at path, of at most MaxBytes. The error is that of
// [ReadFile] or [Parse].
func Load(path string) (*File, error) {
	src, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, src)
}

// ReadFile returns the file at path for [Parse]. Of a file above MaxBytes it returns the
// first MaxBytes + 1 bytes, which Parse rejects. The error is an *[Error] that wraps the
// cause, such as [fs.ErrNotExist].
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return nil, unreadable(path, err)
	}
	return src, nil
}

func unreadable(path string, err error) error {
	e := &Error{File: path, Problem: fmt.Sprintf("the file cannot be read: %v", err), Next: "check the path and the permissions", cause: err}
	var inner *fs.PathError
	if errors.As(err, &inner) {
		e.Problem = fmt.Sprintf("the file cannot be read: %v", inner.Err)
	}
	return e
}
