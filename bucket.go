package weir

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir/internal/window"
)

// Capacity returns the most units of one attempt: the Burst of a Bucket, or Max.
func (l *Limit) Capacity() int64 {
	if l.Kind == Bucket && l.Burst > 0 {
		return l.Burst
	}
	return l.Max
}

// FillTime returns the time in which an empty Bucket fills, rounded up to a microsecond.
// The limit must be valid. It is 0 for other kinds.
func (l *Limit) FillTime() time.Duration {
	if l.Kind != Bucket {
		return 0
	}
	rate := window.NewRefill(l.Max, l.Window.Microseconds())
	return time.Duration(rate.Within(l.Capacity())) * time.Microsecond
}

// bucketProblem returns the field of a Bucket that is out of its range, and the reason.
func (l *Limit) bucketProblem() (field, problem string) {
	switch {
	case l.Kind != Bucket && l.Burst != 0:
		return "Burst", fmt.Sprintf("%d is the capacity of a bucket, and the limit is of kind %v; use 0, or kind Bucket", l.Burst, l.Kind)
	case l.Kind != Bucket:
		return "", ""
	case l.Max == 0:
		return "Max", "a bucket that never refills; use 1 or more, or kind Rolling to deny everything"
	case l.Burst < 0 || l.Burst > MaxUnits:
		return "Burst", fmt.Sprintf("%d is out of range; use 1 to %d, or 0 for Max", l.Burst, MaxUnits)
	}
	if burst := l.Capacity(); burst > l.MaxBurst() {
		return "Burst", fmt.Sprintf("a bucket of %d units at %d per %v fills in more than 400 days, or is not exact in microseconds below 2^51; use at most %d, or a rounder Max (R16)",
			burst, l.Max, l.Window, l.MaxBurst())
	}
	return "", ""
}

// MaxBurst returns the largest Burst at the rate of the limit, whose Max and Window are
// valid and above 0: its refill is exact, and it fills within 400 days (R16).
func (l *Limit) MaxBurst() int64 {
	rate := window.NewRefill(l.Max, l.Window.Microseconds())
	return rate.MaxBurst()
}
