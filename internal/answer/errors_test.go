package answer

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weirlimit/weir"
)

func TestIsBadInput(t *testing.T) {
	for err, want := range map[error]bool{
		weir.ErrUnits: true, weir.ErrKey: true, weir.ErrInstant: true, weir.ErrUnknownLimit: true, weir.ErrRange: true, weir.ErrID: true, weir.ErrRequest: true, weir.ErrTTL: true,
		weir.ErrOverflow: true,
		nil:              false, weir.ErrFull: false, context.Canceled: false, errors.New("weir: bad key"): false,
	} {
		if got := IsBadInput(err); got != want {
			t.Errorf("%v: got %v, want %v", err, got, want)
		}
		if got := err != nil && IsBadInput(fmt.Errorf("about that: %w", err)); got != want {
			t.Errorf("%v, wrapped: got %v, want %v", err, got, want)
		}
	}
}
