package enforce

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/assert"
)

func TestJoinChanges(t *testing.T) {
	many := strings.Split("abcdefghijkl", "")
	assert.Equal(t, JoinChanges(nil), "none", "no change")
	assert.Equal(t, JoinChanges(many[:10]), "a; b; c; d; e; f; g; h; i; j", "ten changes")
	assert.Equal(t, JoinChanges(many), "a; b; c; d; e; f; g; h; i; j; and 2 more", "twelve changes")
}
