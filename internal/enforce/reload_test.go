package enforce

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/assert"
)

func TestJoinChanges(t *testing.T) {
	many := strings.Split("abcdefghijkl", "")
	assert.Equal(t, JoinChanges(nil), "none", "no change")
	assert.Equal(t, JoinChanges(many), "a; b; c; d; e; f; g; h; i; j; k; l", "twelve changes")
}
