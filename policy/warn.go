package policy

import (
	"regexp"
	"strconv"
	"strings"
)

// WarnAt returns the share of limit i, 1 … 100 percent, at which a grant carries a warning;
// 0 if none does. Plans and overrides change the limit's numbers, not the share.
func (p *Definition) WarnAt(i int) int {
	if i < len(p.WarnPercents) {
		return p.WarnPercents[i]
	}
	return 0
}

// setWarn reads the share of one limit.
func (d *limitBuilder) setWarn(at int, word string) *fault {
	share, f := parseShare(at, word)
	d.warn, d.at.warn = share, at
	return f
}

// setWarn reads the share of every limit that names none of its own.
func (d *policyBuilder) setWarn(at int, word string) (f *fault) {
	d.warn, f = parseShare(at, word)
	return f
}

// shareForm is a whole percentage of 1% … 100%.
var shareForm = regexp.MustCompile("^" + sharePattern + "$")

const sharePattern = `([1-9][0-9]?|100)%`

func parseShare(at int, word string) (share int, f *fault) {
	if !shareForm.MatchString(word) {
		return 0, faultf(at, nextShare(word), "%s is not a share of a limit", clip(word))
	}
	share, _ = strconv.Atoi(strings.TrimSuffix(word, "%"))
	return share, nil
}

// nextShare returns the next step for a word that is no share.
func nextShare(word string) string {
	if shareForm.MatchString(word + "%") {
		return "write " + word + "%"
	}
	if digits, fraction := strings.CutPrefix(word, "0."); fraction && len(digits) == 2 && shareForm.MatchString(digits+"%") {
		return "write " + digits + "%"
	}
	return "use 1% to 100%, such as 80%"
}
