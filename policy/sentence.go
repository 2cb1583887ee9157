package policy

import (
	"strings"
	"time"

	"github.com/weirlimit/weir"
)

// Sentence returns limit i of the policy as a line of the file: "10 messages per day per
// phone, 3s apart". ParseLimit reads such a line, unless it has a block. The line has no
// name and no cells. Sentence panics unless 0 <= i < len(p.Limits).
func (p *Policy) Sentence(i int) string {
	unit := ""
	if i < len(p.Units) {
		unit = p.Units[i]
	}
	return sentence(p.Limits[i], unit, p.BlockOf(i))
}

func sentence(l weir.Limit, unit string, block time.Duration) string {
	count := formatNumber(l.Max)
	if l.Max == weir.MaxUnits {
		count = wordUnlimited
	}
	if unit != "" {
		unit = " " + unit
	}
	var keys strings.Builder
	for _, key := range l.By {
		keys.WriteString(" per " + key)
	}
	apart := ""
	if l.MinInterval > 0 {
		apart = ", " + FormatDuration(l.MinInterval) + " apart"
	}
	then := ""
	if block > 0 {
		then = ", then block " + FormatDuration(block)
	}
	return count + unit + windowSentence(&l) + keys.String() + kindSentence(&l) + apart + then
}
