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

// Logged returns the text of an error of the store for the log, without keys: they are
// personal data. The error itself may name a key, for the caller that sent it.
func Logged(err error) string {
	if errors.Is(err, weir.ErrUnreadable) {
		return weir.ErrUnreadable.Error() + ", which is not named here; weir check with the same --store and that key tells what it holds"
	}
	return err.Error()
}
