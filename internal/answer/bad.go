package answer

import (
	"errors"

	"github.com/weirlimit/weir"
)

// IsBadInput reports whether an error of a limiter blames what was asked, not
// the engine that should have answered: asked once more, it is refused once more
// (R14).
func IsBadInput(err error) bool {
	for _, bad := range []error{weir.ErrUnits, weir.ErrKey, weir.ErrInstant, weir.ErrUnknownLimit, weir.ErrSpan, weir.ErrID, weir.ErrAsk, weir.ErrTTL, weir.ErrOverflow} {
		if errors.Is(err, bad) {
			return true
		}
	}
	return false
}
