package weirredis

import (
	"slices"
	"strconv"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/redisslot"
)

// The key of a history is
//
//	weir3:{push}teacher:teacher=2:42
//
// It has these parts: the KeyPrefix, if there is one; the version of the layout; a hash tag; the
// limit's name; its kind, such as "/bucket", unless it is rolling (R12). Then each dimension of
// the limit has its name, the length of the value in bytes, and the value. Names never contain
// "}", "/", ":" or "=", and the length marks the end of a value. So no two histories share a key,
// for any bytes in the values (R14). The decimal length keeps keys readable in redis-cli;
// internal/keyenc has a binary one.
//
// An operation with an idempotency key has a key of its own: see operationKey.
//
// The tag is the policy's name. In a Cluster it also has six characters, a hash of the
// dimensions that all limits of the policy count by:
//
//	weir3:{push:Yp3xQa}teacher:teacher=2:42
//
// The limits of one decision then share a slot, and decisions spread over the slots. A
// limit that counts all callers together shares no dimension: it pins its policy to one
// slot. A new or removed limit can change the shared dimensions; the histories in a
// Cluster then begin empty.
const layout = "weir3:{"

// kindMarks are the texts for kinds in keys.
var kindMarks = [...]string{
	engine.KindRolling:        "",
	engine.KindFixed:          "/fixed",
	engine.KindFixedFromFirst: "/fixed_from_first",
	engine.KindBucket:         "/bucket",
	engine.KindConcurrency:    "/concurrency",
}

// keysOf returns the keys of the rules' histories for k, in the order of the limits, and all
// keys joined in one string. With one limit it returns only the string.
func (e *Engine) keysOf(p *engine.Compiled, k *engine.Key) (several []string, joined string) {
	limits := p.Limits
	var room [256]byte
	var ends [engine.MaxLimits]int
	b := e.appendTag(room[:0], p, &limits[0], k)
	tag := len(b)
	for i := range limits {
		switch {
		case i == 0:
		case p.Joined: // the limits may be of several policies and keys
			b = e.appendTag(b, p, &limits[i], k)
		default:
			b = append(b, b[:tag]...)
		}
		b = appendHistory(b, p, &limits[i], k)
		ends[i] = len(b)
	}
	if joined = string(b); len(limits) == 1 {
		return nil, joined
	}
	several = make([]string, len(limits))
	start := 0
	for i := range several {
		several[i] = joined[start:ends[i]]
		start = ends[i]
	}
	return several, joined
}

// keysOfAllKinds returns the keys of the histories for k that the rules' limits have in every
// kind.
func (e *Engine) keysOfAllKinds(p *engine.Compiled, k *engine.Key) (keys []string) {
	for _, l := range p.Limits {
		for l.Kind = engine.KindRolling; l.Kind <= engine.KindConcurrency; l.Kind++ {
			keys = append(keys, string(appendHistory(e.appendTag(nil, p, &l, k), p, &l, k)))
		}
	}
	return keys
}

// appendTag appends the prefix and the hash tag of a limit's histories.
func (e *Engine) appendTag(b []byte, p *engine.Compiled, l *engine.Limit, k *engine.Key) []byte {
	b = append(append(b, e.prefix...), layout...)
	b = append(b, l.Policy...)
	if e.spread && len(l.Shared) > 0 {
		b = append(b, ':')
		b = appendSpread(b, p, k, l.Shared)
	}
	return append(b, '}')
}

// appendHistory appends the part of the key after the tag.
func appendHistory(b []byte, p *engine.Compiled, l *engine.Limit, k *engine.Key) []byte {
	b = append(append(b, l.Name...), kindMarks[l.Kind]...)
	for _, dim := range l.By {
		b = append(b, ':')
		b = appendValue(b, p, k, dim)
	}
	return b
}

// appendValue appends name=length:value of one dimension.
func appendValue(b []byte, p *engine.Compiled, k *engine.Key, dim int) []byte {
	value := k.Value(dim)
	b = append(b, p.Dimensions[dim]...)
	b = append(b, '=')
	b = strconv.AppendInt(b, int64(len(value)), 10)
	b = append(b, ':')
	return append(b, value...)
}

// appendSpread appends 36 bits of an FNV-1a hash of the values, as six characters: enough
// for 16,384 slots. Different values may have equal tags, because the values follow.
func appendSpread(b []byte, p *engine.Compiled, k *engine.Key, dims []int) []byte {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	var room [64]byte
	hash := uint64(14695981039346656037)
	for _, dim := range dims {
		for _, c := range appendValue(room[:0], p, k, dim) {
			hash = (hash ^ uint64(c)) * 1099511628211
		}
	}
	hash ^= hash >> 32
	for range 6 {
		b = append(b, alphabet[hash&63])
		hash >>= 6
	}
	return b
}

// operationKey returns the key of an operation:
//
//	weir3:{push}!teacher=2:42:36:dc0fd1d6-…
//
// It has the tag of its decision; "!", with which no limit's name begins; all dimensions of the
// key in the order of their names; the length of the idempotency key; the idempotency key.
func (e *Engine) operationKey(p *engine.Compiled, k *engine.Key, id string) string {
	var room [256]byte
	b := append(e.appendTag(room[:0], p, &p.Limits[0], k), '!')
	for _, name := range slices.Sorted(slices.Values(p.Dimensions)) {
		b = append(appendValue(b, p, k, slices.Index(p.Dimensions, name)), ':')
	}
	b = strconv.AppendInt(b, int64(len(id)), 10)
	return string(append(append(b, ':'), id...))
}

// oneSlot returns an error if the histories of a call, with these keys, are in different
// slots.
func oneSlot(p *engine.Compiled, keys []string) error {
	first := redisslot.Of(keys[0])
	for i, key := range keys {
		if slot := redisslot.Of(key); slot != first {
			l := &p.Limits[i]
			err := engine.Input("request", "its limit %q is in slot %d of the Cluster, "+
				"and limit %q of the first call in slot %d; calls together need one slot: "+
				"use one policy with a limit without dimensions, which pins it to a slot, "+
				"or a Redis that is no Cluster",
				l.Name, slot, p.Limits[0].Name, first)
			return &engine.CallError{Call: l.Call, Err: err}
		}
	}
	return nil
}
