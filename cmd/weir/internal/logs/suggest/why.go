package suggest

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/answer"
)

// why returns the reason of a suggestion as one sentence.
func why(c choice, w *Window, r *Result, o *Options) string {
	span := answer.Span(w.Window)
	s := &w.Suggested
	var b strings.Builder
	switch {
	case c.basis == Gap:
		stand := "keys stand"
		if s.KeysDenied == 1 {
			stand = "key stands"
		}
		fmt.Fprintf(&b, "%d %s apart with %s in their fullest %s, and the others have at most %d",
			s.KeysDenied, stand, fromTo(s.High, w.Peaks.Max), span, s.Low)
	case c.basis == Spare:
		fmt.Fprintf(&b, "no keys stand apart per %s, so the limit spares at least %s%% of them, which have at most %d, and adds headroom",
			span, percentText(o.Spare), c.floor)
	default:
		fmt.Fprintf(&b, "%s, so the limit is the largest peak, %d, with headroom; try it on a longer log", little(r), c.floor)
	}
	var changed []string
	for _, d := range w.WithoutDay {
		if d.Limit*3 < s.Limit*2 {
			changed = append(changed, fmt.Sprintf("%d without %s", d.Limit, d.Date))
		}
	}
	if len(changed) > 0 && c.basis != Few {
		fmt.Fprintf(&b, "; one day decides: it would be %s", strings.Join(changed, " or "))
	}
	if span := r.To.Sub(r.From); span < w.Window && c.basis != Few {
		fmt.Fprintf(&b, "; the log spans only %v, less than one window", span.Round(time.Second))
	}
	return b.String()
}

// little returns the reason why a log has too little data.
func little(r *Result) string {
	switch {
	case r.Keys == 1:
		return "the log has one key, and nothing to compare it with"
	case r.Keys < fewKeys:
		return fmt.Sprintf("the log has only %d keys", r.Keys)
	case r.Requests < fewRequests:
		return fmt.Sprintf("the log has only %d requests", r.Requests)
	}
	return "all keys are steady and heavy, so no ordinary ones stand out"
}

// fromTo returns a range of numbers.
func fromTo(from, to int64) string {
	if from == to {
		return fmt.Sprint(from)
	}
	return fmt.Sprintf("%d to %d", from, to)
}

// percentText returns a share such as 99.9.
func percentText(share float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.4f", share*100), "0"), ".")
}
