package replay

import (
	"context"
	"time"

	"github.com/weirlimit/weir"
)

// target is a policy that lines can name.
type target struct {
	limiter    *weir.Limiter
	dimensions []string
	summary    PolicySummary
}

// do decides a checked line. The units are those counted or refunded.
func (t *target) do(ctx context.Context, line *Line, key weir.Key) (d weir.Decision, units int64, err error) {
	now := t.limiter.At(time.UnixMicro(line.At))
	switch line.Op {
	case Check:
		d, err = now.Allow(ctx, key, line.N)
		return d, 0, err
	case Peek:
		d, err = now.Peek(ctx, key, line.N)
		return d, 0, err
	case Record:
		d, err = now.Record(ctx, key, line.N)
		return d, 0, err
	case Refund:
		units, err = now.Refund(ctx, key, time.UnixMicro(line.GrantedAt), line.N)
	case Reset:
		err = t.limiter.Reset(ctx, key)
	case Count:
		units, err = now.Count(ctx, key, line.Limit, time.Duration(line.Last)*time.Microsecond)
	}
	if err != nil {
		return d, 0, err
	}
	d, err = now.Peek(ctx, key, 0)
	return d, units, err
}

// key puts the values of a line in the order of the policy's dimensions.
func (t *target) key(line *Line) (weir.Key, error) {
	var values [weir.MaxDimensions]string
	found := 0
	for i, dimension := range t.dimensions {
		for _, given := range line.Key {
			if given.Name == dimension {
				values[i] = given.Value
				found++
				break
			}
		}
	}
	if found != len(t.dimensions) || found != len(line.Key) {
		return t.wrongKey(line)
	}
	return weir.K(values[:found]...), nil
}

// wrongKey returns the error that names what is missing or unknown.
func (t *target) wrongKey(line *Line) (weir.Key, error) {
	values := make(map[string]string, len(line.Key))
	for _, given := range line.Key {
		values[given.Name] = given.Value
	}
	return t.limiter.Plan().Key(values)
}
