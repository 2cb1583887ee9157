package envoy

import (
	"encoding/binary"
	"math"
	"unicode/utf8"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Kinds of fields: a number, and bytes behind their count.
const varint, counted = 0, 2

// Fields of messages as they are sent: number and kind.
const (
	requestDomain      = 1<<3 | counted
	requestDescriptors = 2<<3 | counted
	requestHits        = 3<<3 | varint
	descriptorEntries  = 1<<3 | counted
	descriptorHits     = 3<<3 | counted
	descriptorNegative = 4<<3 | varint
	entryKey           = 1<<3 | counted
	entryValue         = 2<<3 | counted
	wrapperValue       = 1<<3 | varint
)

// mostUsual bounds, in bytes, what stays in memory with a key that somebody keeps.
const mostUsual = 4 << 10

// readUsual reads a message whose every field is known, at most once where it can
// be there once, and no override. If it reports false, the message is half read, and
// may be right all the same.
func (r *request) readUsual(data []byte) bool {
	if len(data) > mostUsual {
		return false
	}
	all := string(data) // what is read points into it
	domain, hits := false, false
	for p := 0; p < len(all); {
		field, rest, ok := cut(all, &p)
		switch {
		case !ok:
			return false
		case field == requestDomain && !domain && utf8.ValidString(rest):
			r.Domain, domain = rest, true
		case field == requestDescriptors:
			if !r.readDescriptor(rest) {
				return false
			}
		case field == requestHits && !hits:
			n, ok := number(rest)
			if !ok || n > math.MaxUint32 {
				return false
			}
			r.HitsAddend, hits = uint32(n), true
		default:
			return false
		}
	}
	return true
}

func (r *request) readDescriptor(all string) bool {
	d := r.nextDescriptor()
	for p := 0; p < len(all); {
		field, rest, ok := cut(all, &p)
		switch {
		case !ok:
			return false
		case field == descriptorEntries:
			e := r.nextEntry()
			if !readEntry(e, rest) {
				return false
			}
			d.Entries = append(d.Entries, e)
		case field == descriptorHits && d.HitsAddend == nil:
			d.HitsAddend = new(wrapperspb.UInt64Value)
			if !readWrapper(d.HitsAddend, rest) {
				return false
			}
		case field == descriptorNegative && !d.IsNegativeHits:
			n, ok := number(rest)
			if !ok {
				return false
			}
			d.IsNegativeHits = n != 0
		default:
			return false
		}
	}
	r.Descriptors = append(r.Descriptors, d)
	return true
}

func readEntry(e *common.RateLimitDescriptor_Entry, all string) bool {
	for p := 0; p < len(all); {
		field, rest, ok := cut(all, &p)
		switch {
		case !ok || !utf8.ValidString(rest):
			return false
		case field == entryKey && e.Key == "":
			e.Key = rest
		case field == entryValue && e.Value == "":
			e.Value = rest
		default:
			return false
		}
	}
	return true
}

func readWrapper(v *wrapperspb.UInt64Value, all string) bool {
	if all == "" {
		return true
	}
	p := 0
	field, rest, ok := cut(all, &p)
	n, isNumber := number(rest)
	v.Value = n
	return ok && isNumber && field == wrapperValue && p == len(all)
}

// cut reads the field at *p and moves *p behind it. rest is what the field holds: of
// a number, its digits as they are sent.
func cut(all string, p *int) (field int, rest string, ok bool) {
	field = int(all[*p])
	if field >= 0x80 { // a number of 16 or more
		return 0, "", false
	}
	*p++
	if field&7 == 0 {
		n := digits(all[*p:])
		rest = all[*p : *p+n]
		*p += n
		return field, rest, n > 0
	}
	n := digits(all[*p:])
	size, ok := number(all[*p : *p+n])
	*p += n
	if !ok || field&7 != 2 || size > uint64(len(all)-*p) {
		return 0, "", false
	}
	rest = all[*p : *p+int(size)]
	*p += int(size)
	return field, rest, true
}

// digits is how many bytes the number at the beginning of text has, 0 if it does not
// end.
func digits(text string) int {
	for i := range min(len(text), binary.MaxVarintLen64) {
		if text[i] < 0x80 {
			return i + 1
		}
	}
	return 0
}

// number reads a number that is all of text.
func number(text string) (n uint64, ok bool) {
	for i := range len(text) {
		if i == binary.MaxVarintLen64-1 && text[i] > 1 {
			return 0, false // more than 64 bits
		}
		n |= uint64(text[i]&0x7f) << (7 * i)
	}
	return n, len(text) > 0
}

// nextDescriptor returns an empty descriptor.
func (r *request) nextDescriptor() *common.RateLimitDescriptor {
	n := len(r.Descriptors)
	if n == len(r.descriptors) {
		r.descriptors = append(r.descriptors, new(common.RateLimitDescriptor))
	}
	return r.descriptors[n]
}

// nextEntry returns an empty entry.
func (r *request) nextEntry() *common.RateLimitDescriptor_Entry {
	if r.used == len(r.entries) {
		r.entries = append(r.entries, new(common.RateLimitDescriptor_Entry))
	}
	r.used++
	return r.entries[r.used-1]
}
