package resp

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/gcra"
)

// background is the context of every decision: hanging up must not bypass a limit.
var background = context.Background()

// throttle answers CL.THROTTLE as redis-cell does: whether the request is limited, the
// limit, the remaining units, the seconds until a retry, −1 if it was granted or never can
// be, and the seconds until the whole limit is free. Seconds are rounded up, so that a
// client that waits is not too early.
func throttle(s *Server, out []byte, args []string) []byte {
	l, n, err := throttleLimit(args)
	if err != nil {
		return s.fail(out, err)
	}
	a, err := s.config.Throttler.Throttle(background, args[0], l, n)
	if err != nil {
		var bad *gcra.LimitError
		if errors.As(err, &bad) {
			err = inputError(bad.Problem)
		}
		s.noteFailure(err)
		return s.fail(out, err)
	}
	if a.Limited {
		s.counts.limited.Add(1)
	} else {
		s.counts.allowed.Add(1)
	}
	out = appendArray(out, 5)
	out = appendBool(out, a.Limited)
	out = appendInt(out, a.Limit)
	out = appendInt(out, a.Remaining)
	out = appendInt(out, answer.Seconds(a.RetryAfter))
	return appendInt(out, answer.Seconds(a.ResetAfter))
}

// throttleLimit parses max_burst, count, period and quantity.
func throttleLimit(args []string) (l gcra.Limit, n int64, err error) {
	n = 1
	period := int64(0)
	for i, each := range []struct {
		what string
		to   *int64
		most int64
	}{
		{"max_burst", &l.Burst, weir.MaxUnits - 1},
		{"count", &l.Count, weir.MaxUnits},
		{"period", &period, int64(gcra.Longest / time.Second)},
		{"quantity", &n, weir.MaxUnits},
	} {
		if 1+i == len(args) {
			break
		}
		v, ok := digits(args[1+i])
		if !ok || v > each.most {
			return l, n, inputError(each.what + " must be a whole number, 0 to " + strconv.FormatInt(each.most, 10) +
				", in digits alone, not " + answer.Shown(args[1+i]))
		}
		*each.to = v
	}
	l.Period = time.Duration(period) * time.Second
	return l, n, nil
}

// noteFailure counts an error that is not the command's fault, and logs it unless it is
// logged elsewhere.
func (s *Server) noteFailure(err error) {
	var input inputError
	if errors.As(err, &input) || answer.IsBadInput(err) {
		return
	}
	s.counts.failed.Add(1)
	var unavailable Unavailable
	if !errors.As(err, &unavailable) {
		s.logOutage(err)
	}
}

// logOutage logs that no decision could be made, at most once a second.
func (s *Server) logOutage(err error) {
	now := time.Now().Unix()
	last := s.logged.Load()
	if now != last && s.logged.CompareAndSwap(last, now) {
		s.config.Log.Error("no decision could be made for CL.THROTTLE", "error", answer.Logged(err))
	}
}
