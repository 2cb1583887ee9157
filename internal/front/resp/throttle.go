package resp

import (
	"context"
	"errors"
	"strconv"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// background is the context of every decision: hanging up must not bypass a limit.
var background = context.Background()

// throttle answers CL.THROTTLE as redis-cell does: whether the request is limited, the
// limit, the remaining units, the seconds until a retry, −1 if it was granted or never can
// be, and the seconds until the whole limit is free. Seconds are rounded up, so that a
// client that waits is not too early.
func throttle(s *Server, out []byte, args []string) []byte {
	b, n, err := readBucket(args)
	if err != nil {
		return s.fail(out, err)
	}
	l, err := s.buckets.limiter(b)
	var d weir.Decision
	if err == nil {
		d, err = s.config.Throttle(background, l, weir.K(args[0]), n)
	}
	if err != nil {
		if !isBadInput(err) {
			s.Counts.NoThrottle.Add(1)
		}
		return s.fail(out, err)
	}
	retry := d.RetryAfter
	if d.Allowed {
		s.Counts.ThrottleAllowed.Add(1)
		retry = weir.Never
	} else {
		s.Counts.ThrottleLimited.Add(1)
	}
	out = appendArray(out, 5)
	out = appendBool(out, !d.Allowed)
	out = appendInt(out, b.burst+1)
	out = appendInt(out, max(0, d.Remaining))
	out = appendInt(out, answer.Seconds(retry))
	return appendInt(out, answer.Seconds(d.ResetAfter))
}

// isBadInput reports whether err is the command's fault.
func isBadInput(err error) bool {
	var input inputError
	return errors.As(err, &input) || answer.IsBadInput(err)
}

// readBucket parses max_burst, count, period and quantity.
func readBucket(args []string) (b bucket, n int64, err error) {
	n = 1
	for i, each := range []struct {
		what string
		to   *int64
		most int64
	}{
		{"max_burst", &b.burst, weir.MaxUnits - 1},
		{"count", &b.count, weir.MaxUnits},
		{"period", &b.period, longestPeriod},
		{"quantity", &n, weir.MaxUnits},
	} {
		if 1+i == len(args) {
			break
		}
		v, ok := digits(args[1+i])
		if !ok || v > each.most {
			return b, n, inputError(each.what + " must be a whole number, 0 to " + strconv.FormatInt(each.most, 10) +
				", in digits alone, not " + answer.Shown(args[1+i]))
		}
		*each.to = v
	}
	return b, n, nil
}
