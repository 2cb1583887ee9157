package main

import (
	"testing"
	"time"
	"unicode/utf8"

	"github.com/weirlimit/weir/accesslog"
)

func TestProgressText(t *testing.T) {
	for _, c := range []struct {
		read    accesslog.Progress
		elapsed time.Duration
		columns int
		want    string
	}{
		{accesslog.Progress{Bytes: 25, Total: 100, Lines: 3000}, 2 * time.Second, 0, " 25 % ███████·······················  3000 lines, 1500 lines/s, 6s left"},
		{accesslog.Progress{Bytes: 25, Total: 100, Lines: 3000}, 2 * time.Second, 55, " 25 % ███··········  3000 lines, 1500 lines/s, 6s left"},
		{accesslog.Progress{Bytes: 25, Total: 100, Lines: 3000}, 2 * time.Second, 45, " 25 % 3000 lines, 1500 lines/s, 6s left"},
		{accesslog.Progress{Bytes: 25, Total: 100, Lines: 3000}, 2 * time.Second, 20, " 25 % 3000 lines, 1"},
		{accesslog.Progress{Bytes: 200, Total: 100, Lines: 1}, time.Second, 0, "100 % ██████████████████████████████  1 line, 1 lines/s, 0s left"},
		{accesslog.Progress{Bytes: 200, Lines: 7}, time.Second, 80, "7 lines, 7 lines/s"},
	} {
		got := progressText(c.read, c.elapsed, c.columns)
		if got != c.want || c.columns > 0 && utf8.RuneCountInString(got) >= c.columns {
			t.Errorf("%+v in %d columns: got %q, want %q", c.read, c.columns, got, c.want)
		}
	}
}
