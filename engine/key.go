package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/keyenc"
	"github.com/weirlimit/weir/internal/shorten"
)

// Key is a tuple of dimension values, such as (teacher="42"): 0 to 16 values of 1 to 1,024
// bytes each. Values are opaque bytes: two different tuples never share a history (R14). The
// zero Key has no values.
type Key struct {
	// The first two values have fields of their own, so most keys need no slice and K
	// allocates nothing. An array of four costs 20 ns a call (BenchmarkAllow).
	first, second string
	rest          []string
	n             int
}

// K makes a Key of values, in the order of the policy's dimensions (Policy.Dimensions). It
// allocates only for more than two values. [Compiled.Key] makes a Key of
// named values.
func K(values ...string) (k Key) {
	k.Set(values...)
	return k
}

// Set makes k the Key of the values. It returns nothing. A copy of the key loads its fields as wide
// words, and waits until their stores, which were just made, have reached the cache
// (BenchmarkAllow: 5 to 29 ns).
func (k *Key) Set(values ...string) {
	k.n = len(values)
	k.rest = nil // other keys may share its memory
	if k.n > 0 {
		k.first = values[0]
	}
	if k.n > 1 {
		k.second = values[1]
	}
	if k.n > 2 {
		k.rest = slices.Clone(values[2:])
	}
}

// Len returns the number of values.
func (k *Key) Len() int { return k.n }

// Value returns the i-th value, 0 … Len()-1.
func (k *Key) Value(i int) string {
	switch i {
	case 0:
		return k.first
	case 1:
		return k.second
	}
	return k.rest[i-2]
}

// Append adds a value behind the others. Do not append to two copies of one key: they can
// share memory.
func (k *Key) Append(value string) {
	switch k.n {
	case 0:
		k.first = value
	case 1:
		k.second = value
	default:
		k.rest = append(k.rest, value)
	}
	k.n++
}

// Key builds a key of the rules from named values. Every dimension needs a value, and no
// other names are allowed. The error is an *InputError that gives a name which is unknown or
// missing, and all dimensions.
func (c *Compiled) Key(values map[string]string) (Key, error) {
	var k Key
	missing := ""
	for _, name := range c.Dimensions {
		v, ok := values[name]
		if !ok {
			missing = cmp.Or(missing, name)
		}
		k.Append(v)
	}
	if missing == "" && len(values) <= len(c.Dimensions) {
		return k, c.CheckKey(&k)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) { // so that an input has one error
		if !slices.Contains(c.Dimensions, name) {
			return Key{}, Input("key", "policy %q has no dimension %q; it counts by %s",
				c.Name, shorten.Text(name), c.describeDimensions())
		}
	}
	return Key{}, Input("key",
		"policy %q needs a value for %q; it counts by %s", c.Name, missing, c.describeDimensions())
}

// CheckKey returns an *InputError unless k has a value for each dimension, of 1 to 1,024 bytes
// (R14).
func (c *Compiled) CheckKey(k *Key) error {
	if c.Fits(k) {
		return nil
	}
	if k.n != len(c.Dimensions) {
		return Input("key", "policy %q counts by %s, and this key has %s; pass %s",
			c.Name, c.describeDimensions(), countOf(k.n, "value"), c.describeKey())
	}
	for i := range k.n {
		if err := checkValue(c.Dimensions[i], k.Value(i)); err != nil {
			return err
		}
	}
	return nil
}

// checkValue returns an *InputError unless the value of a dimension has 1 to 1,024 bytes (R14).
func checkValue(dimension, value string) error {
	switch n := len(value); {
	case n == 0:
		return Input("key", "the value of %q is empty, and callers without a value would share "+
			"one history; send a value, or reject such callers", dimension)
	case n > keyenc.MaxValueBytes:
		return Input("key", "the value of %q is %d bytes long; at most %d are allowed",
			dimension, n, keyenc.MaxValueBytes)
	}
	return nil
}

// Fits reports whether CheckKey returns no error. It is false for all keys of three and more
// values, which CheckKey reads one by one.
func (c *Compiled) Fits(k *Key) bool {
	if k.n != len(c.Dimensions) || k.n > 2 {
		return false
	}
	return k.n == 0 || fits(k.first) && (k.n == 1 || fits(k.second))
}

// fits reports whether a value has 1 to 1,024 bytes.
func fits(value string) bool { return uint(len(value)-1) < keyenc.MaxValueBytes }

// countOf returns a number of things, such as "1 value" or "2 values".
func countOf(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// describeKey returns the call that makes a key, such as "weir.K(tenant, user), in this order".
func (c *Compiled) describeKey() string {
	call := "weir.K(" + strings.Join(c.Dimensions, ", ") + ")"
	if len(c.Dimensions) > 1 {
		call += ", in this order"
	}
	return call
}

func (c *Compiled) describeDimensions() string {
	if len(c.Dimensions) == 0 {
		return "nothing (one history for all callers)"
	}
	return fmt.Sprintf("%q", c.Dimensions)
}
