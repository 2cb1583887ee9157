package envoy

import (
	"bytes"
	"math"
	"unicode/utf8"
	"unsafe"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Tags of encoded fields: field number and wire type.
const (
	varint, counted = uint64(protowire.VarintType), uint64(protowire.BytesType)

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

// maxUsual bounds a usual message, in bytes. A key that an engine stores keeps the whole
// message in memory.
const maxUsual = 4 << 10

// readUsual decodes a message without unknown fields, repeated scalars and overrides. If
// it reports false, the message is only half decoded and may still be valid.
func (r *request) readUsual(data []byte) bool {
	if len(data) > maxUsual {
		return false
	}
	hits := false
	for b := bytes.Clone(data); len(b) > 0; { // the strings of the message point into the clone
		f, rest, ok := cutField(b)
		switch {
		case !ok:
			return false
		case f.tag == requestDomain && r.Domain == "" && utf8.Valid(f.bytes):
			r.Domain = f.text()
		case f.tag == requestDescriptors:
			if !r.readDescriptor(f.bytes) {
				return false
			}
		case f.tag == requestHits && !hits && f.number <= math.MaxUint32:
			r.HitsAddend, hits = uint32(f.number), true
		default:
			return false
		}
		b = rest
	}
	return true
}

func (r *request) readDescriptor(b []byte) bool {
	d := r.nextDescriptor()
	for len(b) > 0 {
		f, rest, ok := cutField(b)
		switch {
		case !ok:
			return false
		case f.tag == descriptorEntries:
			e := r.nextEntry()
			if !readEntry(e, f.bytes) {
				return false
			}
			d.Entries = append(d.Entries, e)
		case f.tag == descriptorHits && d.HitsAddend == nil:
			d.HitsAddend = new(wrapperspb.UInt64Value)
			if !readWrapper(d.HitsAddend, f.bytes) {
				return false
			}
		case f.tag == descriptorNegative && !d.IsNegativeHits:
			d.IsNegativeHits = f.number != 0
		default:
			return false
		}
		b = rest
	}
	r.Descriptors = append(r.Descriptors, d)
	return true
}

func readEntry(e *common.RateLimitDescriptor_Entry, b []byte) bool {
	for len(b) > 0 {
		f, rest, ok := cutField(b)
		switch {
		case !ok || !utf8.Valid(f.bytes):
			return false
		case f.tag == entryKey && e.Key == "":
			e.Key = f.text()
		case f.tag == entryValue && e.Value == "":
			e.Value = f.text()
		default:
			return false
		}
		b = rest
	}
	return true
}

func readWrapper(v *wrapperspb.UInt64Value, b []byte) bool {
	if len(b) == 0 {
		return true
	}
	f, rest, ok := cutField(b)
	v.Value = f.number
	return ok && f.tag == wrapperValue && len(rest) == 0
}

// field is one encoded field: a number or bytes, by its wire type.
type field struct {
	tag    uint64
	number uint64
	bytes  []byte
}

// text returns the bytes as a string, without a copy.
func (f *field) text() string { return unsafe.String(unsafe.SliceData(f.bytes), len(f.bytes)) }

// cutField decodes the field at the start of b. It reports false for bytes that are no
// field, and for field numbers and wire types that no usual message has.
func cutField(b []byte) (f field, rest []byte, ok bool) {
	f.tag = uint64(b[0])
	b = b[1:]
	n := -1
	switch {
	case f.tag >= 0x80: // a field number of 16 or more
	case f.tag&7 == varint:
		f.number, n = protowire.ConsumeVarint(b)
	case f.tag&7 == counted:
		f.bytes, n = protowire.ConsumeBytes(b)
	}
	if n < 0 {
		return f, nil, false
	}
	return f, b[n:], true
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
