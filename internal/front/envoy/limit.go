package envoy

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/internal/keyenc"
)

// limit is what a descriptor is decided by: a rule, or an override of a request. It
// never changes.
type limit struct {
	id      uint64          // no other limit of this process has it
	rule    *envoyconf.Rule // of an override: one with nothing but numbers
	weir    weir.Limit
	plan    *weir.Plan // of this limit alone
	shown   *shown
	windows Windows
	salt    string // begins each key: of an override, its period and a hash of its keys
	tally   *tally
	denials *denials // nil = of an override
}

// newLimit compiles a rule of the domain.
func (s *Service) newLimit(d *domain, r *envoyconf.Rule, salt string) (*limit, error) {
	l := &limit{id: s.limits.Add(1), rule: r, windows: s.options.Windows, salt: salt, tally: new(tally)}
	if r.Unlimited {
		return l, nil
	}
	says := &pb.RateLimitResponse_RateLimit{
		RequestsPerUnit: r.Requests, Unit: pb.RateLimitResponse_RateLimit_Unit(r.Unit), Name: r.Name}
	if r.Multiplier > 0 {
		says.UnitMultiplier = wrapperspb.UInt32(r.Multiplier)
	}
	l.shown = show(says)
	l.weir = weir.Limit{Name: r.History, Max: int64(r.Requests), Window: l.windows.span(r.Window)}
	if l.windows != Rolling {
		// Windows of other kinds have histories of their own. The salt of an override holds
		// its period already.
		kind := l.windows.String()
		if salt == "" {
			kind += r.Window.String()
		}
		l.weir.Name = envoyconf.HistoryName(kind, []string{r.History}, nil)
	}
	if len(r.Varying) > 0 || l.windows != Rolling || salt != "" {
		// One dimension for all values, of a name that no other limit has: then any
		// limits make a plan together, with a value for each.
		l.weir.By = []string{l.weir.Name}
	}
	var err error
	l.plan, err = weir.Policy{Name: d.policy, Limits: []weir.Limit{l.weir}}.Plan()
	return l, err
}

// value is what a key holds for the limit: the values of the entries that tell
// histories apart, for a fixed window also its number. Values of one limit are the
// same text only if all of that is the same.
func (l *limit) value(w *work, entries []envoyconf.Entry, now time.Time) (value string, ends time.Time) {
	varying := l.rule.Varying
	if len(varying) == 1 && l.windows == Rolling && l.salt == "" {
		if v := entries[varying[0]].Value; len(v) <= weir.MaxValueBytes {
			return v, ends
		}
	}
	b := append(w.text[:0], l.salt...)
	if l.windows != Rolling {
		var number int64
		number, ends = l.windows.at(now, l.rule.Unit, l.rule.Window)
		b = binary.AppendVarint(b, number)
	}
	for _, i := range varying {
		b = keyenc.Append(b, entries[i].Value)
	}
	w.text = b
	if len(b) > weir.MaxValueBytes {
		sum := sha256.Sum256(b)
		b = append(b[:0], longMark...)
		b = append(b, sum[:]...)
	}
	return string(b), ends
}

// longMark begins the hash that stands for values which are too long for a key. No
// other value begins with it: a request's text is UTF-8, which has no such byte,
// and periods, numbers of windows and lengths are never of that form.
const longMark = "\xff\xff\xff\xff"
