// Package lifetime has the time to live of the reservations that weirhttp and weirgrpc open for a
// request. The rules of a plan may hold for longer than those of its policy, and only the limiter
// that decides has them. So the time is a word for the limiter, and not a number.
package lifetime

import (
	"math"
	"time"
)

// OfRequest, as the TTL of a weir.Request, stands for the longest hold of the limits that decide.
// Without a concurrency limit it stands for their longest window, but at most Longest.
//
// A record outlives its settlement until the end of its life. With a window of a day every request
// of the day would have one.
const OfRequest time.Duration = math.MinInt64

// Longest is the longest OfRequest without a concurrency limit.
const Longest = 5 * time.Minute
