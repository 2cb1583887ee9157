package envoyconf

import "fmt"

// Error is the first error of a configuration.
type Error struct {
	File    string
	Line    int // from 1; 0 = the whole file
	Column  int // from 1
	Problem string
	Next    string // the correction

	cause error
}

// Error returns the place, the problem and the next step.
func (e *Error) Error() string {
	where := ""
	if e.File != "" {
		where = e.File + ": "
	}
	if e.Line > 0 {
		where = fmt.Sprintf("%s:%d:%d: ", e.File, e.Line, e.Column)
	}
	if e.Next == "" {
		return where + e.Problem
	}
	return where + e.Problem + "; " + e.Next
}

// Unwrap returns the reason why a file could not be read, or nil.
func (e *Error) Unwrap() error { return e.cause }
