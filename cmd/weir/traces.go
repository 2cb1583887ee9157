package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
)

// traceFiles are the files of a recorded trace, in the order of their calls.
type traceFiles struct {
	io.Reader
	all []*traceFile
}

func (t *traceFiles) Close() error {
	var errs []error
	for _, f := range t.all {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// openTraces opens the files of a trace. Their order is that of their first calls, so that
// trace.jsonl* reads a trace that weir serve has rotated.
func openTraces(cmd *cobra.Command, names []string) (*traceFiles, error) {
	traces := &traceFiles{}
	var first []int64
	for _, name := range names {
		in, err := openFile(cmd, name)
		if err != nil {
			traces.Close()
			return nil, err
		}
		format, text, err := accesslog.Sniff(in)
		traces.all = append(traces.all, &traceFile{text, in, name})
		if errors.Is(err, accesslog.ErrEmpty) {
			format, err = accesslog.JSONL, nil
		}
		if err != nil || format != accesslog.JSONL {
			traces.Close()
			return nil, usage("replay traces and access logs apart", "%s is not a trace, and %s is one", name, names[0])
		}
		first = append(first, firstCall(text))
	}
	order := make([]int, len(names))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(first[a], first[b]) })
	var texts []io.Reader
	for _, i := range order {
		texts = append(texts, traces.all[i], strings.NewReader("\n")) // the last line of a file may be cut off
	}
	traces.Reader = io.MultiReader(texts...)
	return traces, nil
}

// firstCall returns the instant of the first call in the buffer of a trace, or 0.
func firstCall(text io.Reader) int64 {
	b := text.(*bufio.Reader)
	sample, _ := b.Peek(b.Buffered())
	for line := range strings.Lines(string(sample)) {
		var call struct {
			At int64 `json:"at_us"`
		}
		if !accesslog.IsTraceHeader([]byte(line)) && json.Unmarshal([]byte(line), &call) == nil {
			return call.At
		}
	}
	return 0
}

// startsLikeTrace reports whether a file is a trace. Errors of opening are left to the
// reader of access logs.
func startsLikeTrace(cmd *cobra.Command, name string) bool {
	if isPipe(name) {
		return false
	}
	in, err := openFile(cmd, name)
	if err != nil {
		return false
	}
	defer in.Close()
	format, _, _ := accesslog.Sniff(in)
	return format == accesslog.JSONL
}
