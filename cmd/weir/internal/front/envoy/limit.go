package envoy

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/keyenc"
)

// limit is a compiled rule, or a compiled override of a request. It never changes.
type limit struct {
	id       uint64          // unique in this process
	rule     *envoyconf.Rule // an override has a rule with only numbers
	weir     weir.Limit
	compiled *engine.Compiled // of this limit alone
	shown    *shownLimit
	windows  Windows
	salt     string // prefix of each key; of an override, its period and a hash of its keys
	tally    *Hits
	denials  *denials // nil for an override
}

// newLimit compiles a rule of the domain.
func (s *Service) newLimit(d *domain, r *envoyconf.Rule, salt string) (*limit, error) {
	l := &limit{id: s.limits.Add(1), rule: r, windows: s.options.Windows, salt: salt, tally: new(Hits)}
	if r.Unlimited {
		return l, nil
	}
	l.shown = newShownLimit(r.Name, r.Requests, r.Unit, r.Multiplier)
	l.weir = weir.Limit{Name: r.History, Max: int64(r.Requests), Window: l.windows.span(r.Window)}
	if l.windows != Rolling {
		// Windows of other kinds have histories of their own. The salt of an override
		// holds its period already.
		kind := l.windows.String()
		if salt == "" {
			kind += r.Window.String()
		}
		l.weir.Name = envoyconf.HistoryName(kind, []string{r.History}, nil)
	}
	if len(r.Varying) > 0 || l.windows != Rolling || salt != "" {
		// All values are one dimension, with a name that no other limit has. So any
		// limits form a policy together, with one value for each.
		l.weir.By = []string{l.weir.Name}
	}
	var err error
	l.compiled, err = weir.Policy{Name: d.histories, Limits: []weir.Limit{l.weir}}.Compile()
	return l, err
}

// value returns the value of the limit's dimension for the entries in c.entries: the
// values that have separate histories and, for a fixed window, its number. Equal values
// of one limit mean that all of these are equal.
func (l *limit) value(c *call) (value string, ends time.Time) {
	varying := l.rule.Varying
	if len(varying) == 1 && l.windows == Rolling && l.salt == "" {
		if v := c.entries[varying[0]].Value; len(v) <= weir.MaxValueBytes {
			return v, ends
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
	return string(b), ends
}

// longMark begins the hash that replaces a value too long for a key. No other value
// begins with it: the text of a request is UTF-8, which has no such byte, and periods,
// window numbers and lengths never have this form.
const longMark = "\xff\xff\xff\xff"
