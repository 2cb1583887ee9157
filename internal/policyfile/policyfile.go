// Package policyfile reads a policy file, or another file of that size, with an error for people.
package policyfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// MaxBytes is the largest size of a policy file: 256 KiB, some three thousand policies.
const MaxBytes = 256 << 10

// Failure is a file that cannot be read.
type Failure struct {
	File    string // its path; never ""
	Problem string // the problem and its reason
	Next    string // the next step
	Err     error  // the cause, such as fs.ErrNotExist
}

// Read returns the file at path. Of a file above MaxBytes it returns the first MaxBytes + 1
// bytes.
func Read(path string) ([]byte, *Failure) {
	f, err := os.Open(path)
	var src []byte
	if err == nil {
		defer f.Close()
		src, err = io.ReadAll(io.LimitReader(f, MaxBytes+1))
	}
	if err == nil {
		return src, nil
	}
	reason, next := err, "check the path and the permissions"
	if inner, ok := errors.AsType[*fs.PathError](err); ok {
		reason = inner.Err
	}
	if info, statErr := os.Stat(path); statErr == nil && info.IsDir() {
		next = "name one file in it, such as " + filepath.Join(path, "weir.yaml")
	}
	return nil, &Failure{
		cmp.Or(path, `path ""`),
		fmt.Sprintf("the file cannot be read: %v", reason),
		next,
		err,
	}
}
