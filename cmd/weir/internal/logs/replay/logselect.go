package replay

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/keyenc"
)

// logSelector selects requests and reads the values of their keys.
type logSelector struct {
	where     []LogWhere
	units     LogUnits
	addresses *addresses
	one       []byte
	counts    LogCounts
	read      []bool            // by where: the field was read of some line
	seen      []bool            // by where: some line had the field
	sized     bool              // some line had a size
	fields    []accesslog.Field // that are read
	names     []string          // the fields of the first line, for messages
}

// newLogSelector returns a selector. The error is that of two sources for one dimension.
func newLogSelector(o *LogOptions) (*logSelector, error) {
	for i, k := range o.Keys {
		if slices.ContainsFunc(o.Keys[:i], func(other LogKey) bool {
			return other.Dimension == k.Dimension && (other.Prefix == "" || k.Prefix == "")
		}) {
			return nil, fmt.Errorf("the key %q is given twice; only path prefixes can share a dimension", k.Dimension)
		}
	}
	a := new(addresses)
	for _, p := range o.TrustedProxies {
		a.proxies = a.proxies.With(p)
	}
	return &logSelector{where: o.Where, units: o.Units, addresses: a, fields: o.fields(),
		read: make([]bool, len(o.Where)), seen: make([]bool, len(o.Where))}, nil
}

// fields returns the fields that are read.
func (o *LogOptions) fields() (all []accesslog.Field) {
	for _, k := range o.Keys {
		all = append(all, k.Field)
	}
	for _, w := range o.Where {
		all = append(all, w.Field)
	}
	if len(o.TrustedProxies) > 0 {
		all = append(all, accesslog.Forwarded)
	}
	if o.Units.Bytes {
		all = append(all, accesslog.Bytes)
	}
	return all
}

// each calls visit with every request of a log, until an error. An error of reading is a
// *[LogError].
func (s *logSelector) each(ctx context.Context, log *accesslog.Reader, visit func(*accesslog.Entry) error) error {
	for e, err := range log.Entries(s.fields...) {
		if err != nil {
			return &LogError{err.Error()}
		}
		if err = ctx.Err(); err == nil {
			err = visit(e)
		}
		if err != nil {
			return err
		}
	}
	s.names = log.Names()
	return nil
}

// request returns the units of a request. The outcome is allowed if all conditions match and
// the units are a number.
func (s *logSelector) request(e *accesslog.Entry) (n int64, o logOutcome) {
	if !s.selected(e) {
		return 0, outside
	}
	n, ok := s.unitsOf(e)
	if !ok {
		return 0, badUnits
	}
	return n, allowed
}

// selected reports whether all conditions match.
func (s *logSelector) selected(e *accesslog.Entry) bool {
	for i := range s.where {
		b, ok := e.Get(s.where[i].Field)
		if !ok {
			b = nil
		}
		s.read[i], s.seen[i] = true, s.seen[i] || ok
		if !s.where[i].glob.Match(b) {
			return false
		}
	}
	return true
}

// unitsOf returns the units of a request. ok is false if its size is no number.
func (s *logSelector) unitsOf(e *accesslog.Entry) (n int64, ok bool) {
	if !s.units.Bytes {
		return s.units.N, true
	}
	b, ok := e.Get(accesslog.Bytes)
	if !ok {
		return 0, true
	}
	s.sized = true
	n, err := strconv.ParseInt(string(b), 10, 64)
	return n, err == nil && n >= 0 && n <= weir.MaxUnits
}

// dimensions are the values of a key and their sources.
type dimensions struct {
	names   []string
	sources [][]LogKey
	had     []bool // some line had a value
}

// add adds a dimension with its sources among all keys.
func (d *dimensions) add(name string, keys []LogKey) {
	d.names, d.sources, d.had = append(d.names, name), append(d.sources, sourcesOf(name, keys)), append(d.had, false)
}

// sourcesOf returns the keys of a dimension.
func sourcesOf(name string, keys []LogKey) (all []LogKey) {
	for _, k := range keys {
		if k.Dimension == name {
			all = append(all, k)
		}
	}
	return all
}

// appendKey appends the encoded key of a request. The outcome is allowed, noKey or outside.
func (s *logSelector) appendKey(encoded []byte, d *dimensions, e *accesslog.Entry) ([]byte, logOutcome) {
	outcome := allowed
	for i, sources := range d.sources {
		var ok bool
		if s.one, ok = s.addresses.value(sources, e, s.one[:0]); !ok {
			if outcome != outside {
				outcome = noKey
			}
			if sources[0].Prefix != "" {
				outcome = outside
			}
			continue
		}
		d.had[i] = true
		encoded = keyenc.Append(encoded, s.one)
	}
	return encoded, outcome
}

// problem returns the error of logs without a readable line, or of a field that no line has.
func (s *logSelector) problem(all ...*dimensions) error {
	log, skipped := &s.counts.Log, s.counts.Filtered+s.counts.BadUnits
	if log.Entries == 0 {
		if len(log.First) > 0 {
			return &LogError{"no line is readable; the first is " + log.First[0].Error()}
		}
		return &LogError{"the logs have no lines"}
	}
	fields := "; the lines have " + strings.Join(s.names, ", ")
	for i, w := range s.where {
		if s.read[i] && !s.seen[i] && w.Glob != "" {
			return &LogError{fmt.Sprintf("no line has the field %s%s", w.Field, fields)}
		}
	}
	if s.units.Bytes && !s.sized && skipped < log.Entries {
		return &LogError{fmt.Sprintf("no line has the field %s of --units%s", accesslog.Bytes, fields)}
	}
	if skipped == log.Entries {
		return nil // no key was read
	}
	for _, d := range all {
		for i, had := range d.had {
			switch k := d.sources[i][0]; {
			case had || k.Prefix != "":
			case slices.Contains(s.names, k.Field.String()):
				return &LogError{fmt.Sprintf("the field %s of the key %s has no value in any of %d lines; log it, or choose another field", k.Field, k.Dimension, log.Entries)}
			default:
				return &LogError{fmt.Sprintf("no line has the field %s of the key %s%s", k.Field, k.Dimension, fields)}
			}
		}
	}
	return nil
}

// LogKeys reads the key and the units of each request of access logs, as a [LogRunner]
// does. It is used by one goroutine at a time.
type LogKeys struct {
	selector   *logSelector
	dimensions dimensions
	encoded    []byte
}

// NewLogKeys returns a reader of the keys of o.Keys; o.Policy has no meaning. The error is
// that of two sources for one dimension.
func NewLogKeys(o LogOptions) (*LogKeys, error) {
	s, err := newLogSelector(&o)
	if err != nil {
		return nil, err
	}
	k := &LogKeys{selector: s}
	for _, source := range o.Keys {
		if !slices.Contains(k.dimensions.names, source.Dimension) {
			k.dimensions.add(source.Dimension, o.Keys)
		}
	}
	return k, nil
}

// Dimensions returns the names of the values of a key, in the order of LogOptions.Keys.
func (k *LogKeys) Dimensions() []string { return k.dimensions.names }

// Each calls visit with the encoded key, the instant and the units of every request that has
// them, until an error. The others grow one of the counts of k. The key is valid until visit
// returns. An error of reading is a *[LogError].
func (k *LogKeys) Each(ctx context.Context, log *accesslog.Reader, visit func(key []byte, at, n int64) error) error {
	return k.selector.each(ctx, log, func(e *accesslog.Entry) error {
		if key, n, ok := k.read(e); ok {
			return visit(key, e.At, n)
		}
		return nil
	})
}

// read returns the encoded key and the units of a request. ok is false if it has none.
func (k *LogKeys) read(e *accesslog.Entry) (key []byte, n int64, ok bool) {
	n, outcome := k.selector.request(e)
	if outcome == allowed {
		k.encoded, outcome = k.selector.appendKey(k.encoded[:0], &k.dimensions, e)
	}
	isLong := func(v string) bool { return len(v) > weir.MaxValueBytes }
	if outcome == allowed && len(k.encoded) > weir.MaxValueBytes && slices.ContainsFunc(values(string(k.encoded), nil), isLong) {
		outcome = rejected
		k.selector.counts.Reason = "a value of its key is too long"
	}
	return k.encoded, n, k.selector.counts.count(outcome)
}

// Named returns the values of an encoded key with their names.
func (k *LogKeys) Named(key string) Key { return named(k.dimensions.names, key) }

// Counts returns the counts of a log that was read. The error is the *[LogError] of one
// without a readable line, or of a field that no line has.
func (k *LogKeys) Counts(log *accesslog.Reader) (LogCounts, error) {
	k.selector.counts.Log = log.Stats()
	return k.selector.counts, k.selector.problem(&k.dimensions)
}

// values appends the values of an encoded key. They share its memory.
func values(key string, out []string) []string {
	for len(key) > 0 {
		n, size := binary.Uvarint([]byte(key[:min(len(key), binary.MaxVarintLen64)]))
		end := size + int(n)
		out = append(out, key[size:end])
		key = key[end:]
	}
	return out
}

// named returns the values of an encoded key with their names.
func named(names []string, key string) (all Key) {
	for i, v := range values(key, nil) {
		all = append(all, enforce.Pair{Name: names[i], Value: v})
	}
	return all
}
