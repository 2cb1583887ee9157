package answer

import (
	"errors"

	"github.com/weirlimit/weir"
)

// Logged is what a log may hold of the error of a decision that could not be made: no
// key, since keys are other people's data. The error itself may name one where that is
// what is wrong, and tells it to whoever asked for that key in Go or by weir check.
func Logged(err error) string {
	if errors.Is(err, weir.ErrUnreadable) {
		return weir.ErrUnreadable.Error() + ", which is not named here; weir check with the same --store and that key tells what it holds"
	}
	return err.Error()
}
