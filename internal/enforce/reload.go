package enforce

import (
	"fmt"
	"strings"

	"github.com/weirlimit/weir/internal/policyfile"
	"github.com/weirlimit/weir/policy"
)

// JoinChanges joins all changes of a reload for a line of a log, "none" without any. None is left
// out: it could be the one that loosens a policy.
func JoinChanges(changes []string) string {
	if len(changes) == 0 {
		return "none"
	}
	return strings.Join(changes, "; ")
}

// FirstError returns the place and the fault of the first error, without the line of the file:
// that is for a terminal, and may name customers. It counts the other errors of a file.
func FirstError(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	if n := countErrors(err); n > 1 {
		line += fmt.Sprintf(" (the first of %d errors; weir validate prints all)", n)
	}
	return line
}

// countErrors returns the number of errors of a file that policy.Parse has joined.
func countErrors(err error) (n int) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return 0
	}
	for _, each := range joined.Unwrap() {
		if _, ok := each.(*policy.Error); ok {
			n++
		}
	}
	return n
}

// ReadFile returns the file at path for policy.Parse. Of a file above [policyfile.MaxBytes] it
// returns one byte more than that, which Parse rejects. The error is an *policy.Error that wraps
// the cause, such as fs.ErrNotExist.
func ReadFile(path string) ([]byte, error) {
	src, failed := policyfile.Read(path)
	if failed != nil {
		return nil, &policy.Error{
			File:    failed.File,
			Problem: failed.Problem,
			Next:    failed.Next,
			Err:     failed.Err,
		}
	}
	return src, nil
}
