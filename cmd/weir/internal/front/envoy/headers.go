package envoy

import (
	"strconv"
	"strings"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// Headers are the names of header fields.
type Headers struct{ Limit, Remaining, Reset string }

// DefaultHeaders are the names in the reference.
var DefaultHeaders = Headers{Limit: "RateLimit-Limit", Remaining: "RateLimit-Remaining", Reset: "RateLimit-Reset"}

// warningHeader names the limits with a warning on this request.
const warningHeader = "Weir-Warning"

// fields returns the header fields with the names of h for the item nearest to its limit.
// It returns none if h is nil or no item has a limit. Seconds are rounded up, so that a
// client that waits is not too early.
func (c *call) fields(h *Headers) []*core.HeaderValue {
	it := c.nearest()
	if h == nil || it == nil {
		return nil
	}
	reset := int64((it.untilReset(c) + time.Second - 1) / time.Second)
	all := []*core.HeaderValue{
		{Key: h.Limit, Value: strconv.FormatUint(uint64(it.shown.RequestsPerUnit), 10)},
		{Key: h.Remaining, Value: strconv.FormatUint(uint64(it.limitRemaining()), 10)},
		{Key: h.Reset, Value: strconv.FormatInt(reset, 10)},
	}
	if c.warnings != nil {
		all = append(all, &core.HeaderValue{Key: warningHeader, Value: strings.Join(c.warnings, ", ")})
	}
	return all
}

// nearest returns the item for the header fields: the last one that denies the request,
// otherwise the first one with the least remaining hits. It is nil if no item has a limit.
func (c *call) nearest() (nearest *item) {
	denied := false
	for i := range c.items {
		it := &c.items[i]
		switch {
		case it.kind == enforced && it.over:
			nearest, denied = it, true
		case denied || !it.limited():
		case nearest == nil || it.limitRemaining() < nearest.limitRemaining():
			nearest = it
		}
	}
	return nearest
}
