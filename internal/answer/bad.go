package answer

import (
	"errors"

	"github.com/weirlimit/weir"
)

// IsBadInput reports whether an error of a limiter concerns the request and not the
// engine: the same request would be rejected again (R10, R14).
func IsBadInput(err error) bool {
	return weir.IsBadInput(err) || errors.Is(err, weir.ErrOverflow)
}
