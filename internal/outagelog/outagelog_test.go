package outagelog

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// script plays changes of the state, each "seconds state", and returns the lines with their
// seconds.
func script(t *testing.T, changes ...string) (lines []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		begin := time.Now()
		handler := slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Duration("at", time.Since(begin))
			}
			return a
		}})
		l := &Log{To: slog.New(handler), Down: "gone", Up: "back"}
		for _, change := range changes {
			at, state, _ := strings.Cut(change, " ")
			after, err := time.ParseDuration(at)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Until(begin.Add(after)))
			switch state {
			case "up":
				l.Set(nil)
			case "close":
				l.Close()
			default:
				l.Set(errors.New(state))
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		lines = strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	})
	return lines
}

// TestLastLineIsTheState: down, up and down within the period ends with a line "gone".
func TestLastLineIsTheState(t *testing.T) {
	for _, c := range []struct{ changes, want []string }{
		{[]string{"1s up", "2s up"}, []string{""}},
		{[]string{"1s a", "2s a", "3s b"}, []string{"at=1s level=ERROR msg=gone why=a"}},
		{[]string{"1s a", "3s up"}, []string{"at=1s level=ERROR msg=gone why=a", "at=3s level=INFO msg=back"}},
		{[]string{"1s a", "3s up", "4s b", "6s c"}, []string{"at=1s level=ERROR msg=gone why=a", "at=3s level=INFO msg=back", "at=11s level=ERROR msg=gone why=c"}},
		{[]string{"1s a", "3s up", "4s b", "5s up", "6s c", "7s up", "12s d", "14s up"}, []string{"at=1s level=ERROR msg=gone why=a", "at=3s level=INFO msg=back",
			"at=12s level=ERROR msg=gone why=d not_logged=2", "at=14s level=INFO msg=back"}},
		{[]string{"1s a", "3s up", "4s b", "5s up"}, []string{"at=1s level=ERROR msg=gone why=a", "at=3s level=INFO msg=back"}},
		{[]string{"1s a", "3s up", "4s b", "5s close", "6s up"}, []string{"at=1s level=ERROR msg=gone why=a", "at=3s level=INFO msg=back", "at=5s level=ERROR msg=gone why=b", "at=6s level=INFO msg=back"}},
	} {
		got := script(t, c.changes...)
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%v:\ngot  %q\nwant %q", c.changes, got, c.want)
		}
	}
}

// TestHandlerMayChangeTheState: a handler that uses the limiter whose state is logged does not
// wait for itself, and its line follows.
func TestHandlerMayChangeTheState(t *testing.T) {
	var l Log
	h := &changingHandler{log: &l}
	l.To, l.Down, l.Up = slog.New(h), "down", "up"
	l.Set(errors.New("refused"))
	if got := strings.Join(h.lines, " "); got != "down up" {
		t.Errorf("lines %q, want down and up", got)
	}
}

// changingHandler sets the state up while a line is written.
type changingHandler struct {
	slog.Handler
	log   *Log
	lines []string
}

func (h *changingHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *changingHandler) Handle(_ context.Context, r slog.Record) error {
	h.lines = append(h.lines, r.Message)
	h.log.Set(nil)
	return nil
}
