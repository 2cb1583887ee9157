package envoy

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/keyenc"
	"github.com/weirlimit/weir/policy"
)

// limit is a compiled rule, or a compiled override of a request. It never changes.
type limit struct {
	rule     *envoyconf.Rule // an override has a rule with only numbers
	enforced *enforce.Rule   // with this limit alone; nil if it is unlimited
	shown    *shownLimit
	windows  Windows
	salt     string // prefix of each key; of an override, its period and a hash of its keys
	tally    *Hits
	denials  *denials // nil for an override
}

// newLimit compiles a rule of the domain.
func (s *Service) newLimit(d *domain, r *envoyconf.Rule, salt string) (*limit, error) {
	l := &limit{rule: r, windows: s.options.Windows, salt: salt, tally: new(Hits)}
	if r.Unlimited {
		return l, nil
	}
	l.shown = newShownLimit(r.Name, r.Requests, r.Unit, r.Multiplier)
	w := weir.Limit{Name: r.History, Max: int64(r.Requests), Window: l.windows.span(r.Window)}
	if l.windows != Rolling {
		// Windows of other kinds have histories of their own. The salt of an override
		// holds its period already.
		kind := l.windows.String()
		if salt == "" {
			kind += r.Window.String()
		}
		w.Name = envoyconf.HistoryName(kind, []string{r.History}, nil)
	}
	if len(r.Varying) > 0 || l.windows != Rolling || salt != "" {
		// All values are one dimension.
		w.By = []string{w.Name}
	}
	var err error
	l.enforced, err = enforce.NewRule(&policy.Definition{Name: d.histories, Limits: []weir.Limit{w}, WhenStoreIsDown: s.options.Outage}, s.options.Engine)
	return l, err
}

// key returns the key of the limit for the entries in c.entries: the values that have separate
// histories and, for a fixed window, its number. Equal keys of one limit mean that all of
// these are equal.
func (l *limit) key(c *call) (key weir.Key, ends time.Time) {
	if len(l.enforced.Dimensions()) == 0 {
		return key, ends
	}
	varying := l.rule.Varying
	if len(varying) == 1 && l.windows == Rolling && l.salt == "" {
		if v := c.entries[varying[0]].Value; len(v) <= weir.MaxValueBytes {
			return weir.K(v), ends
		}
	}
	b := append(c.text[:0], l.salt...)
	if l.windows != Rolling {
		var number int64
		number, ends = l.windows.at(c.now, l.rule.Unit, l.rule.Window)
		b = binary.AppendVarint(b, number)
	}
	for _, i := range varying {
		b = keyenc.Append(b, c.entries[i].Value)
	}
	c.text = b
	if len(b) > weir.MaxValueBytes {
		sum := sha256.Sum256(b)
		b = append(b[:0], longMark...)
		b = append(b, sum[:]...)
	}
	return weir.K(string(b)), ends
}

// longMark begins the hash that replaces a value too long for a key. No other value
// begins with it: the text of a request is UTF-8, which has no such byte, and periods,
// window numbers and lengths never have this form.
const longMark = "\xff\xff\xff\xff"
