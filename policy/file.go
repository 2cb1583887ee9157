package policy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/weirlimit/weir/policy/internal/strictyaml"
)

// MaxBytes is the largest size of a policy file: 1 MiB, some ten thousand
// policies.
const MaxBytes = 1 << 20

// File is a policy file that has been checked.
type File struct {
	Name     string    // of the file, as given
	Policies []*Policy // in the order of the file; not to be added to or renamed
	Tests    []*Test   // in the order of the file

	byName map[string]*Policy
}

// Policy returns the policy of that name, or nil.
func (f *File) Policy(name string) *Policy {
	if f.byName != nil {
		return f.byName[name]
	}
	for _, p := range f.Policies {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Parse reads a policy file. The name is for messages only. The error is an
// *Error, and then nothing of the file is returned.
func Parse(filename string, src []byte) (*File, error) {
	if len(src) > MaxBytes {
		return nil, &Error{File: filename, Problem: "the file is larger than 1 MiB", Next: "split it, or run one weir for each part"}
	}
	doc, err := strictyaml.Read(src)
	c := checker{file: filename, doc: doc}
	if err != nil {
		e := err.(*strictyaml.Error)
		return nil, c.fail(e.Offset, e.Next, "%s", e.Problem)
	}
	return c.policyFile(&doc.Root)
}

// Load reads the policy file at path, of at most MaxBytes. The error is an *Error;
// if the file could not be read it wraps the cause, such as fs.ErrNotExist.
func Load(path string) (*File, error) {
	src, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, src)
}

// ReadFile returns what Load would parse: the file at path or, of a longer one, its
// first MaxBytes + 1 bytes, which Parse refuses. The error is an *Error as Load's.
func ReadFile(path string) ([]byte, error) {
	src, err := read(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	return src, nil
}

// read returns the beginning of the file, enough to see that it is too long.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxBytes+1))
}

func unreadable(path string, err error) error {
	e := &Error{File: path, Problem: fmt.Sprintf("the file cannot be read: %v", err), Next: "check the path and the rights", cause: err}
	var bare *fs.PathError
	if errors.As(err, &bare) {
		e.Problem = fmt.Sprintf("the file cannot be read: %v", bare.Err)
	}
	return e
}
