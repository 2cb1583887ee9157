package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const many = 2_500

// manyPolicies is a file of many policies, a little below MaxBytes.
func manyPolicies(tb testing.TB) []byte {
	tb.Helper()
	var b strings.Builder
	b.WriteString("version: 1\npolicies:\n")
	for i := range many {
		fmt.Fprintf(&b, "  policy-%d:\n    about: Policy %d of many.\n    limit: %d per minute per user, 3s apart\n", i, i, i+1)
	}
	if b.Len() > MaxBytes {
		tb.Fatalf("%d bytes", b.Len())
	}
	return []byte(b.String())
}

// BenchmarkLoad loads many policies: the promise is less than a second.
func BenchmarkLoad(b *testing.B) {
	path := filepath.Join(b.TempDir(), "weir.yaml")
	src := manyPolicies(b)
	if err := os.WriteFile(path, src, 0o600); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		if f, err := Load(path); err != nil || len(f.Policies) != many {
			b.Fatal(err)
		}
	}
}

// TestManyPoliciesKeepTheirOrder: so many policies are all there, in order and by name.
func TestManyPoliciesKeepTheirOrder(t *testing.T) {
	f, err := Parse("weir.yaml", manyPolicies(t))
	if err != nil || len(f.Policies) != many {
		t.Fatalf("%v", err)
	}
	for i, p := range f.Policies {
		if want := int64(i + 1); p.Limits[0].Max != want || f.Definition(fmt.Sprintf("policy-%d", i)) != p || p.Line != 3+3*i {
			t.Fatalf("policy %d: %+v", i, p)
		}
	}
}
