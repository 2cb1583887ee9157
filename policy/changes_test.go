package policy

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/txtar"
)

// TestChangesNameOldAndNew: the archive testdata/changes.txtar has two files and their changes.
func TestChangesNameOldAndNew(t *testing.T) {
	const path = "testdata/changes.txtar"
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	archive := txtar.Parse(content)
	before, err := Parse("before.yaml", archive.Files[0].Data)
	if err != nil {
		t.Fatal(err)
	}
	after, err := Parse("after.yaml", archive.Files[1].Data)
	if err != nil {
		t.Fatal(err)
	}
	got, golden := strings.Join(Changes(before, after), "\n")+"\n", &archive.Files[2]
	if *rewrite {
		golden.Data = []byte(got)
		must.Do(t, os.WriteFile(path, txtar.Format(archive), 0o644))
	}
	assert.Equal(t, got, string(golden.Data), "changes; after reading the difference, run with -rewrite")
	assert.Equal(t, len(Changes(before, before)), 0, "changes from a file to itself")
}

// TestChangesOfLongValues: overrides whose values differ behind many bytes are not confused.
func TestChangesOfLongValues(t *testing.T) {
	parse := func(value string) *File {
		t.Helper()
		const file = `{version: 1, policies: {a: {limit: 1 per minute per user, overrides: [{for: {user: %q}, limit: 2 per minute, until: forever, why: x}]}}}`
		got, err := Parse("weir.yaml", fmt.Appendf(nil, file, value))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	long := strings.Repeat("x", 100)
	changes := Changes(parse(long+"a"), parse(long+"b"))
	if len(changes) != 2 || !strings.Contains(changes[0], `b" 2 per minute per user, until forever, why "x" added`) {
		t.Errorf("got %q, want one override added and one removed", changes)
	}
}

// everyMember is a policy with all that a file can say, so that a change of every member is
// possible.
const everyMember = `version: 1
policies:
  all:
    about: Text.
    limits:
      rolling: {max: 10, window: minute, per: user, apart: 1s, block: 2m, warn: 80%, unit: messages}
      fixed: "10 per week per user, fixed, from saturday, in Asia/Tokyo"
      bucket: 10 per minute per user, burst 20
      running: 10 at once per user, for at most 30s
    cells: 10
    costs: {rolling: 2}
    keys: {user: address}
    plan-by: plan
    plans: {free: {rolling: "20 notes per minute, 2s apart", bucket: "20 per minute, burst 40"}}
    overrides:
      - {for: {user: 192.0.2.7}, plan: free, limits: {rolling: 1 per minute}, until: 2030-01-01, why: x}
`

// notCompared are the members of a policy that make no difference to it.
var notCompared = map[string]string{
	"Definition.Line": "the place in the file",
	"Plan.Line":       "the place in the file",
	"Override.Line":   "the place in the file",
	"Definition.file": "the place in the file",
	"Definition.Name": "a policy with another name is another policy",
}

// TestEveryMemberHasWords: a change of any member of a policy is named, also of those that are
// added to the types later.
func TestEveryMemberHasWords(t *testing.T) {
	parse := func() *File {
		file, err := Parse("weir.yaml", []byte(everyMember))
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	worded := map[string]bool{} // by the names of members; of the kinds of limits, one is enough
	mutants := 0
	for {
		after := parse()
		m := mutation{seen: map[string]bool{}, left: mutants}
		m.walk(t, "Definition", reflect.ValueOf(after.Policies[0]).Elem())
		if m.member == "" {
			for name := range m.seen {
				if !worded[name] && notCompared[name] == "" {
					t.Errorf("a change of %s has no words: name it in Definition.sections, and give the policy of this test one", name)
				}
			}
			break
		}
		mutants++
		for _, change := range Changes(parse(), after) {
			worded[m.member] = true
			if strings.Contains(change, "%!") {
				t.Errorf("%s: %s", m.member, change)
			}
		}
	}
	for name := range notCompared {
		if worded[name] {
			t.Errorf("%s has words, so it is compared", name)
		}
	}
	if mutants < 60 {
		t.Errorf("%d changes, want at least 60", mutants)
	}
}

// mutation changes one member of a policy.
type mutation struct {
	seen   map[string]bool // all members, by type and name
	left   int             // members to pass before the one that is changed
	member string          // the changed member; "" before the change
}

// walk visits the values below v in the order of their types. A list is changed by the loss of
// its last element, a map by the loss of all, and both by the changes of their elements.
func (m *mutation) walk(t *testing.T, member string, v reflect.Value) {
	t.Helper()
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		m.change(member, v, v.Interface().(time.Time).Add(time.Hour))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Name() + "." + v.Type().Field(i).Name
			m.seen[name] = true
			if field := v.Field(i); field.CanSet() && notCompared[name] == "" {
				m.walk(t, name, field)
			}
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			m.walk(t, member, v.Index(i))
		}
		if n := v.Len(); n > 0 {
			m.change(member, v, v.Slice(0, n-1).Interface())
		}
	case v.Kind() == reflect.Map:
		for _, key := range v.MapKeys() {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(key))
			m.walk(t, member, value)
			v.SetMapIndex(key, value)
		}
		if v.Len() > 0 {
			m.change(member, v, reflect.MakeMap(v.Type()).Interface())
		}
	case v.Type() == reflect.TypeFor[time.Duration]():
		m.change(member, v, v.Int()+int64(time.Second))
	case v.CanInt():
		m.change(member, v, v.Int()+1)
	case v.CanUint():
		m.change(member, v, v.Uint()+1)
	case v.Kind() == reflect.Bool:
		m.change(member, v, !v.Bool())
	case v.Kind() == reflect.String:
		m.change(member, v, v.String()+"x")
	default:
		t.Fatalf("%s is a %v: teach this test to change one", member, v.Type())
	}
}

// change sets v to another value if it is the member's turn.
func (m *mutation) change(member string, v reflect.Value, to any) {
	if m.left == 0 {
		m.member = member
		v.Set(reflect.ValueOf(to).Convert(v.Type()))
	}
	m.left--
}
