package main

import (
	"encoding/json"
	"io"

	"github.com/weirlimit/weir/internal/answer"
)

// printable writes what a terminal shows as it is. Talk repeats names of files,
// arguments and what others have answered, and none of them may act in a terminal.
type printable struct{ to io.Writer }

// Write writes answer.Printable of p, which holds whole characters.
func (w printable) Write(p []byte) (int, error) {
	if _, err := w.to.Write(answer.Printable(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// printJSON prints a line of data for programs, which people look at as well.
func printJSON(out io.Writer, v any) error { return json.NewEncoder(printable{out}).Encode(v) }
