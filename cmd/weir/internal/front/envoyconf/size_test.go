package envoyconf

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/policyfile"
	"github.com/weirlimit/weir/internal/testkit/memstats"
)

// A file that unpacks to a multiple of its size is rejected before it takes the memory.
func TestSizeIsBounded(t *testing.T) {
	const limit = "rate_limit: {unit: hour, requests_per_unit: 1}"
	many := func(n int, head, each string) string {
		var b strings.Builder
		b.WriteString("domain: d\ndescriptors:\n" + head)
		for i := range n {
			fmt.Fprintf(&b, "  - {key: k%d, %s}\n", i, each)
		}
		return b.String()
	}
	long := "&v " + strings.Repeat("x", 4000)
	values := "descriptors: &d [{key: k, value: " + long + "}"
	for i := range 50 {
		values += fmt.Sprintf(", {key: k%d, value: *v}", i)
	}
	doublings := "domain: d\ndescriptors:\n  - {key: k, descriptors: &d0 [{key: a}, {key: b}]}\n"
	for i := range 25 {
		doublings += fmt.Sprintf("  - {key: k%d, descriptors: &d%d [{key: a, descriptors: *d%d}, {key: b, descriptors: *d%d}]}\n", i, i+1, i, i)
	}
	for _, c := range []struct{ name, src, want string }{
		{"a long value by aliases", many(2_000, "  - {key: k, value: &v "+strings.Repeat("x", 100_000)+"}\n", "value: *v, "+limit), "limits.yaml:3:21: value has 100000 bytes, and at most 4096 are allowed"},
		{"many values by aliases", many(2_000, "  - {key: k, "+values+"]}\n", "descriptors: *d, "+limit), "more than 64 MiB"},
		{"descriptors by aliases", many(2_000, "  - {key: k, descriptors: &d [{key: a}, {key: b}]}\n", "descriptors: *d, "+limit), ""},
		{"doublings", doublings, "more than 64 MiB"},
		{"short nodes", "domain: d\ndescriptors: [" + strings.Repeat("a,", 100_000) + "]", "a descriptor must be a mapping"},
		{"a large file", string(make([]byte, policyfile.MaxBytes+1)), "larger than 256 KiB"},
	} {
		before := memstats.Allocated()
		_, err := Parse("limits.yaml", []byte(c.src))
		allocated := memstats.Allocated() - before
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %.300v; want %q", c.name, err, c.want)
		}
		if allocated > 400<<20 {
			t.Errorf("%s: %d MiB allocated; want 400 at most", c.name, allocated>>20)
		}
	}
}

// Warnings are bounded: there can be one for each word of a file.
func TestWarningsAreBounded(t *testing.T) {
	src := "domain: d\ndescriptors:\n"
	for i := range 500 {
		src += fmt.Sprintf("  - {key: k%d, unit: hour}\n", i)
	}
	c, err := Parse("limits.yaml", []byte(src))
	if err != nil || len(c.Warnings) != maxWarnings+1 {
		t.Errorf("%d warnings, %v; want %d", len(c.Warnings), err, maxWarnings+1)
	}
}
