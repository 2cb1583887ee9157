package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/keyenc"
	"github.com/weirlimit/weir/internal/testkit/assert"
)

// rolling returns a limit of an hour.
func rolling(name string, most int64, by ...int) Limit {
	return Limit{Name: name, Max: most, Window: time.Hour.Microseconds(), By: by}
}

// byUser returns compiled rules of one limit by user.
func byUser(policy string, most int64) *Compiled {
	return Compile(policy, AllOrNothing, []string{"user"}, []Limit{rolling("all", most, 0)})
}

func TestCompileCompletesLimits(t *testing.T) {
	bucket := rolling("bucket", 60, 1, 0)
	bucket.Kind = KindBucket
	c := Compile("api", Partial, []string{"user", "ip"}, []Limit{rolling("all", 7, 0, 1), bucket})
	for i, capacity := range []int64{7, 60} {
		l := &c.Limits[i]
		if l.Policy != "api" || l.Capacity != capacity {
			t.Errorf("limit %d: policy %q, capacity %d, want api, %d", i, l.Policy, l.Capacity, capacity)
		}
		if want := []int{1, 0}; !slices.Equal(l.Shared, want) { // ip before user
			t.Errorf("limit %d: shared %v, want %v", i, l.Shared, want)
		}
	}
	micros := c.Limits[1].Refill.Micros
	assert.Equal(t, micros, time.Minute.Microseconds(), "µs after which one unit of 60 per hour flows in")
}

func TestCompiledTimes(t *testing.T) {
	for name, c := range map[string]struct {
		limit         Limit
		longest, kept time.Duration
	}{
		"a short window": {Limit{Window: 1000}, time.Millisecond, time.Minute},
		"an hour":        {Limit{Window: 3600e6}, time.Hour, time.Hour},
		"cells":          {Limit{Window: 3600e6, Cell: 1e6}, time.Hour, time.Hour + time.Second},
		"a day in a zone": {Limit{Window: 86400e6, Kind: KindFixed, Period: &Calendar{Period: Day, Zone: time.UTC, Anchor: 1}},
			24 * time.Hour, 48 * time.Hour},
		"a bucket of five minutes": {Limit{Max: 1, Window: 60e6, Kind: KindBucket, Capacity: 5}, 5*time.Minute + time.Microsecond, 5*time.Minute + time.Microsecond},
	} {
		rules := Compile("p", AllOrNothing, nil, []Limit{c.limit})
		if rules.LongestWindow != c.longest || rules.IdempotencyTTL != c.kept {
			t.Errorf("%s: longest window %v, ids are kept %v, want %v, %v", name, rules.LongestWindow, rules.IdempotencyTTL, c.longest, c.kept)
		}
	}
}

func TestLimitNamed(t *testing.T) {
	c := Compile("p", AllOrNothing, nil, []Limit{rolling("a", 1), rolling("b", 1)})
	assert.Equal(t, fmt.Sprint(c.LimitNamed("a"), c.LimitNamed("b"), c.LimitNamed("")), "0 1 -1", "indices")
}

// TestResets: the rules of a reset have the limits that it concerns, with the dimensions that
// these count by. Engines place their histories where the whole rules place them.
func TestResets(t *testing.T) {
	c := Compile("api", AllOrNothing, []string{"zone", "user", "app"},
		[]Limit{rolling("each", 1, 0, 1, 2), rolling("app", 1, 2, 0), rolling("zone", 1, 0)})
	for want, names := range map[string][]string{
		"[each] [zone user app] [[2 1 0]] [0]":                    nil,
		"[app] [zone app] [[1 0]] [0]":                            {"app"},
		"[app zone] [zone app] [[1 0] [0]] [0]":                   {"zone", "app", "app"},
		"[zone] [zone] [[0]] [0]":                                 {"zone"},
		"[each app zone] [zone user app] [[2 1 0] [2 0] [0]] [0]": {"each", "app", "zone"},
	} {
		r, err := c.Resets(names)
		if err != nil {
			t.Fatal(names, err)
		}
		var by [][]int
		for _, l := range r.Limits {
			by = append(by, l.By)
		}
		assert.Equal(t, fmt.Sprint(r.LimitNames(), r.Dimensions, by, r.Limits[0].Shared), want, "%q", names)
	}
	assert.Equal(t, fmt.Sprint(c.LimitNames(), c.Limits[1].By), "[each app zone] [2 0]", "the whole, unchanged")
	apart := Compile("apart", AllOrNothing, []string{"user", "app"}, []Limit{rolling("user", 1, 0), rolling("app", 1, 1)})
	for says, names := range map[string][]string{
		`no limit "usr"; use one of ["user" "app"]`:                                                      {"user", "usr"},
		`no limit ""; use one of ["user" "app"]`:                                                         {""},
		`no limit of policy "apart" counts by all of ["user" "app"]; name one or more of ["user" "app"]`: nil,
	} {
		_, err := apart.Resets(names)
		assert.Error(t, err, &InputError{Field: "limit"}, says)
	}
}

// TestKey: a key has its values, also after a change of the slice that it was made of.
func TestKey(t *testing.T) {
	for n := range 6 {
		values := []string{"a", "b", "c", "d", "e"}[:n]
		made, appended := K(values...), Key{}
		for _, v := range values {
			appended.Append(v)
		}
		if !reflect.DeepEqual(made, appended) || made.Len() != n {
			t.Errorf("K of %q is %+v, appended %+v", values, made, appended)
		}
		for i, want := range slices.Clone(values) {
			values[i] = "x"
			assert.Equal(t, made.Value(i), want, "value %d of %q", i, values)
		}
	}
}

// TestSetForgetsTheOldValues: a key that is set again has nothing of the key before, and shares no
// memory with its copies.
func TestSetForgetsTheOldValues(t *testing.T) {
	k := K("a", "b", "c")
	before := k
	k.Set("d", "e", "f")
	assert.Equal(t, k.Value(2)+before.Value(2), "fc", "third values of the key and of its copy")
	k.Set("x")
	k.Append("y")
	k.Append("z")
	assert.Equal(t, k.Value(2)+before.Value(2), "zc", "third values after further changes")
}

// TestFits: keys of up to two valid values fit, so that they take the direct path.
func TestFits(t *testing.T) {
	long := strings.Repeat("x", keyenc.MaxValueBytes+1)
	for _, c := range []struct {
		values []string
		want   bool
	}{
		{nil, true}, {[]string{"a"}, true}, {[]string{"a", "b"}, true}, {[]string{"a", "b", "c"}, false},
		{[]string{""}, false}, {[]string{"a", ""}, false}, {[]string{"", "b"}, false},
		{[]string{long}, false}, {[]string{"a", long}, false},
	} {
		rules := Compiled{Dimensions: []string{"user", "ip", "path"}[:len(c.values)]}
		k := K(c.values...)
		assert.Equal(t, rules.Fits(&k), c.want, "%.20q fits", c.values)
		other := Compiled{Dimensions: make([]string, len(c.values)+1)}
		assert.Equal(t, other.Fits(&k), false, "%.20q fits rules of one more dimension", c.values)
	}
}

func TestKeysOfRules(t *testing.T) {
	c := Compile("api", AllOrNothing, []string{"user", "ip"}, []Limit{rolling("all", 1, 0, 1)})
	k, err := c.Key(map[string]string{"ip": "::1", "user": "ann"})
	if err != nil || !reflect.DeepEqual(k, K("ann", "::1")) {
		t.Errorf("key %+v, %v", k, err)
	}
	long := strings.Repeat("x", keyenc.MaxValueBytes+1)
	for want, values := range map[string]map[string]string{
		`weir: bad key: policy "api" has no dimension "a"; it counts by ["user" "ip"]`:                                                         {"b": "", "a": "", "user": "", "ip": ""},
		`weir: bad key: policy "api" needs a value for "ip"; it counts by ["user" "ip"]`:                                                       {"user": "ann"},
		`weir: bad key: the value of "ip" is 1025 bytes long; at most 1024 are allowed`:                                                        {"user": "ann", "ip": long},
		`weir: bad key: the value of "ip" is empty, and callers without a value would share one history; send a value, or reject such callers`: {"user": "ann", "ip": ""},
	} {
		for range 20 { // the error names the same mistake each time
			_, err := c.Key(values)
			if assert.Equal(t, err.Error(), want, "%q", values); !errors.Is(err, &InputError{Field: "key"}) {
				t.Errorf("got %#v, want bad input in the key", err)
			}
		}
	}
	for want, key := range map[string]Key{"ip": K("ann", ""), "user": K("", "::1")} {
		assert.Error(t, c.CheckKey(&key), ErrInput, fmt.Sprintf("the value of %q is empty", want))
	}
	few := K("ann")
	assert.Error(t, c.CheckKey(&few), ErrInput, "this key has 1 value; pass weir.K(")
	none, one := Compile("all", AllOrNothing, nil, []Limit{rolling("all", 1)}), K("ann")
	assert.Error(t, none.CheckKey(&one), ErrInput, "counts by nothing (one history for all callers)")
}

func TestInputError(t *testing.T) {
	err := Input("units", "%d; use 1 to %d", -1, 5)
	assert.Equal(t, err.Error(), "weir: bad number of units: -1; use 1 to 5", "units")
	assert.Equal(t, Input("instant", "late").Error(), "weir: bad instant: late", "an instant")
	wrapped := fmt.Errorf("call 3: %w", err)
	for target, want := range map[error]bool{
		ErrInput:                        true,
		&InputError{Field: "units"}:     true,
		&InputError{Field: "key"}:       false,
		&InputError{"units", "another"}: false,
		ErrFull:                         false,
	} {
		assert.Equal(t, errors.Is(wrapped, target), want, "errors.Is(%v, %#v)", wrapped, target)
	}
	var input *InputError
	if !errors.As(wrapped, &input) || input.Field != "units" {
		t.Errorf("errors.As finds %+v", input)
	}
}

func TestWords(t *testing.T) {
	for want, got := range map[string]fmt.Stringer{
		"Default": OutageDefault, "Deny": OutageDeny, "Allow": OutageAllow, "Share": OutageShare,
		"ShareOrStricter": OutageShareOrStricter, "Outage(5)": OutageShareOrStricter + 1,
		"Rolling": KindRolling, "Fixed": KindFixed, "FixedFromFirst": KindFixedFromFirst, "Bucket": KindBucket, "Concurrency": KindConcurrency, "Kind(5)": KindConcurrency + 1,
		"AllOrNothing": AllOrNothing, "Partial": Partial, "CountDenied": CountDenied, "Mode(3)": CountDenied + 1,
	} {
		assert.Equal(t, got.String(), want, "%#v", got)
	}
}

func TestFailClearsTheOutcome(t *testing.T) {
	c := Call{Result: Result{Allowed: true, Granted: 3}, States: []State{{Used: 1}}}
	if c.Fail(io.EOF); c.Err != io.EOF || c.Result != (Result{}) || c.States[0] != (State{}) {
		t.Errorf("%+v", c)
	}
}

func TestDescribe(t *testing.T) {
	slots := Limit{Name: "slots", Max: 3, Window: 5e6, Kind: KindConcurrency}
	bucket := Limit{Name: "bucket", Max: 3, Window: 5e6, Kind: KindBucket, Capacity: 4, MinInterval: 1e6}
	c := Compile("p", AllOrNothing, nil, []Limit{slots, bucket})
	for i, want := range []State{
		{Name: "slots", Kind: KindConcurrency, Max: 3, MaxHold: 5 * time.Second, Remaining: 3},
		{Name: "bucket", Kind: KindBucket, Max: 3, Burst: 4, Window: 5 * time.Second, MinInterval: time.Second, Remaining: 4},
	} {
		assert.Equal(t, c.Limits[i].Describe(), want, "%s", want.Name)
	}
}

// recorder keeps the calls that it gets, and grants them.
type recorder struct{ calls []Call }

func (e *recorder) Do(_ context.Context, calls []Call) {
	for i := range calls {
		c := &calls[i]
		e.calls = append(e.calls, *c)
		c.Result = Result{Allowed: true, Granted: c.N}
		for j := range c.States {
			c.States[j] = c.Rules.Limits[j].Describe()
		}
	}
}
