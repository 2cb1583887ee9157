package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/internal/answer"
)

// topOptions are the flags of weir top.
type topOptions struct {
	url, policy, token string
	interval           time.Duration
	n                  int
	once, asJSON       bool
}

func topCommand() *cobra.Command {
	var o topOptions
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch which keys are denied most",
		Long: `Top asks a running weir serve, again and again, which keys are denied most and what
becomes of the calls for each policy. Of keys it knows the last ten to twenty
minutes; a count is never too low, and too high by what stands behind ± at most.
On a terminal it waits for a weir that has gone to come back.

What weir answers is for operators: --url is the address of its admin listener,
where there is one. Keys are other people's data, so nothing of them reaches the
terminal but letters, digits and marks: all else is escaped.`,
		Example: `  weir top
  weir top --url http://127.0.0.1:7072 --interval 5s --policy search
  weir top --once --json`,
		Args: wantArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return top(cmd, &o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.url, "url", "http://127.0.0.1:7070", "the `URL` of weir's admin listener, or unix:/path")
	f.StringVar(&o.policy, "policy", "", "only the policy of that `NAME`")
	f.StringVar(&o.token, "token-file", "", "a `FILE` with the token to show; or set $WEIR_ADMIN_TOKEN")
	f.IntVarP(&o.n, "n", "n", 15, "how many keys, 0 to 1000")
	f.DurationVar(&o.interval, "interval", 2*time.Second, "how long to wait between two looks, 100ms or more")
	f.BoolVar(&o.once, "once", false, "look once")
	f.BoolVar(&o.asJSON, "json", false, "print what weir answers, one JSON object for each look")
	return cmd
}

func top(cmd *cobra.Command, o *topOptions) error {
	if o.interval < 100*time.Millisecond {
		return usage("such as --interval 2s", "--interval must be 100ms or more, not %v", o.interval)
	}
	if o.n < 0 || o.n > 1000 {
		return usage("such as -n 20", "-n must be 0 to 1000, not %d", o.n)
	}
	asker, err := newTopAsker(o)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	screen := newScreen(cmd.OutOrStdout(), o)
	defer screen.leave()
	var last *looked
	for {
		now, err := asker.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		switch {
		case err == nil:
			if err := screen.show(now, last); err != nil || o.once {
				return err
			}
			last = now
		case !screen.lost(last, err):
			screen.leave()
			return err
		}
		if !sleep(ctx, o.interval) {
			return nil
		}
	}
}

// sleep reports whether d has passed before ctx is done.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// looked is one answer of GET /v1/top.
type looked struct {
	body []byte
	from string // the address that was asked

	At    time.Time `json:"at"`
	Keys  string    `json:"keys"`
	Since time.Time `json:"since"`
	Top   []struct {
		Policy  string            `json:"policy"`
		Rule    string            `json:"rule"`
		Key     map[string]string `json:"key"`
		Clipped bool              `json:"clipped"`
		Denials int64             `json:"denials"`
		Error   int64             `json:"error"`
	} `json:"top"`
	Policies []calls `json:"policies"`

	when time.Time // it was asked, by the clock of this process
}

// calls is what became of the calls for a policy since weir's start.
type calls struct {
	Policy    string `json:"policy"`
	Allowed   int64  `json:"allowed"`
	Denied    int64  `json:"denied"`
	WouldDeny int64  `json:"would_deny"`
	Errors    int64  `json:"errors"`
}

// newLooked reads an answer.
func newLooked(body []byte, from string, when time.Time) (*looked, error) {
	l := &looked{body: answer.Printable(body), from: from, when: when}
	if err := json.Unmarshal(body, l); err != nil || l.Policies == nil {
		return nil, usage("is --url the address of weir's admin listener?", "%s does not answer as weir does", from)
	}
	return l, nil
}

// perSecond is how many a second there were between two looks.
func perSecond(now, last int64, d time.Duration) string {
	if d <= 0 || now < last {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(now-last)/d.Seconds())
}
