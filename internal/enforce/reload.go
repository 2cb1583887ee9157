package enforce

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirlimit/weir/policy"
)

// JoinChanges joins all changes of a reload for a line of a log, "none" without any. None is left
// out: it could be the one that loosens a policy.
func JoinChanges(changes []string) string {
	if len(changes) == 0 {
		return "none"
	}
	return strings.Join(changes, "; ")
}

// FirstError returns the place and the fault of the first error, without the line of the file:
// that is for a terminal, and may name customers. It counts the other errors of a file.
func FirstError(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	if all, ok := errors.AsType[policy.Errors](err); ok && len(all) > 1 {
		line += fmt.Sprintf(" (the first of %d errors; weir validate prints all)", len(all))
	}
	return line
}
