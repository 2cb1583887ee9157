package answer

import (
	"cmp"
	"errors"

	"github.com/weirlimit/weir"
)

// ForError is the answer of a protocol to an error. Its code is of type C.
type ForError[C any] struct {
	err  error
	code C
	text string
}

// For returns the answer to errors that wrap err, or to all others if err is nil. A text of
// "" stands for that of the error.
func For[C any](err error, code C, text string) ForError[C] { return ForError[C]{err, code, text} }

// ToError returns the code and the text of the first answer to err. The last of all answers
// is for every error.
func ToError[C any](err error, all []ForError[C]) (code C, text string) {
	for _, a := range all {
		if code, text = a.code, cmp.Or(a.text, err.Error()); errors.Is(err, a.err) {
			break
		}
	}
	return code, text
}

// IsBadInput reports whether an error of a limiter concerns the request and not the
// engine: the same request would be rejected again (R10, R14).
func IsBadInput(err error) bool {
	return errors.Is(err, weir.ErrInput) || errors.Is(err, weir.ErrOverflow)
}

// Logged returns the text of an error of the store for the log, without keys: they are
// personal data. The error itself may name a key, for the caller that sent it.
func Logged(err error) string {
	if errors.Is(err, weir.ErrUnreadable) {
		return weir.ErrUnreadable.Error() + ", which is not named here; weir check with the same --store and that key tells what it holds"
	}
	return err.Error()
}
