package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// size is a number of bytes, as a flag: digits, and KiB, MiB or GiB behind them or
// nothing.
type size int64

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"", 1}}

// String is what Set reads.
func (s *size) String() string {
	for i := len(sizeUnits) - 2; i >= 0; i-- {
		if u := sizeUnits[i]; *s > 0 && int64(*s)%u.bytes == 0 {
			return strconv.FormatInt(int64(*s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(*s), 10)
}

// Set reads a size above 0.
func (s *size) Set(text string) error {
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n < 1 || n > math.MaxInt64/u.bytes {
			break
		}
		*s = size(n * u.bytes)
		return nil
	}
	return fmt.Errorf("%q is no size above 0 such as 512MiB; KiB, MiB and GiB are known, without one of them it is bytes", text)
}

// Type names the kind of flag.
func (s *size) Type() string { return "size" }
