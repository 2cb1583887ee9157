package answer

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
)

func TestLogged(t *testing.T) {
	err := fmt.Errorf("under weir1:ann: %w", weir.ErrUnreadable)
	if got := Logged(err); strings.Contains(got, "ann") || !strings.HasPrefix(got, weir.ErrUnreadable.Error()) {
		t.Errorf("%s; want no key, and what is wrong", got)
	}
	if got := Logged(errors.New("connection refused")); got != "connection refused" {
		t.Errorf("%s; want it as it is", got)
	}
}
