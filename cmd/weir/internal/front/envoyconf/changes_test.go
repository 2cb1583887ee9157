package envoyconf

import (
	"reflect"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
)

func TestChangesNameOldAndNew(t *testing.T) {
	merge := func(sources ...string) *Config {
		t.Helper()
		c := &Config{byName: map[string]*Domain{}}
		for _, src := range sources {
			must.Do(t, c.add("limits.yaml", []byte(src)))
		}
		return c
	}
	before := merge(`
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: user, value: ann, rate_limit: {unit: minute, requests_per_unit: 5}, shadow_mode: true}
  - {key: same, rate_limit: {unit: day, requests_per_unit: 1}}
  - key: path
    value: /x*
    rate_limit: {unit: second, requests_per_unit: 1, unit_multiplier: 30}
    descriptors: [{key: ip, rate_limit: {unlimited: true, name: a}}]
  - {key: path, value: "/*", share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 9}}
`, "domain: gone\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]")
	after := merge(`
domain: shop
descriptors:
  - {key: path, value: "/*", rate_limit: {unit: hour, requests_per_unit: 9}}
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 50}}
  - {key: user, value: ann, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: user, value: bob}
  - {key: same, rate_limit: {unit: day, requests_per_unit: 1}}
  - key: path
    value: /x*
    rate_limit: {unit: second, requests_per_unit: 1, unit_multiplier: 20}
    descriptors: [{key: ip, rate_limit: {unit: day, requests_per_unit: 3, name: b, replaces: [{name: a}]}, quota_mode: true}]
`, "domain: fresh\ndescriptors: [{key: k, descriptors: [{key: l, rate_limit: {unit: day, requests_per_unit: 1}}]}]")
	want := `shop.path_/*: 9 per hour, share_threshold → 9 per hour
shop.path_/x*: 1 per 30 × second → 1 per 20 × second
shop.path_/x*.ip: unlimited, name a → 3 per day, quota_mode, name b, replaces a
shop.user: 5 per minute → 50 per minute
shop.user_ann: 5 per minute, shadow_mode → 5 per minute
shop.user_bob: added, no limit
shop: wildcards in the order path_/x*, path_/* → path_/*, path_/x*
fresh.k: added, no limit
fresh.k.l: added, 1 per day
gone.k: removed, 1 per day`
	assert.Equal(t, strings.Join(Changes(before, after), "\n"), want, "changes")
	assert.Equal(t, len(Changes(before, before)), 0, "changes from a configuration to itself")
	assert.Equal(t, len(Changes(nil, after)), 9, "changes from none")
	assert.Equal(t, len(Changes(after, nil)), 9, "changes to none")
}

// followFromOthers are the fields of a Rule that need no words of their own.
var followFromOthers = map[string]string{
	"Path": "the name of the descriptor", "Index": "the place in the file", "Window": "the unit and the multiplier",
	"History": "the keys, and share_threshold", "Keys": "the name of the descriptor",
}

// TestEveryFieldOfARuleHasWords also covers fields that are added later.
func TestEveryFieldOfARuleHasWords(t *testing.T) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Rule]()) {
		base := Rule{Requests: 5, Unit: Minute, Multiplier: 2, Replaces: []string{"x"}, Varying: []int{0}, Keys: []string{"k"}}
		changed := base
		switch v := reflect.ValueOf(&changed).Elem().FieldByIndex(field.Index); {
		case v.CanInt():
			v.SetInt(v.Int() + 1)
		case v.CanUint():
			v.SetUint(v.Uint() + 1)
		case v.Kind() == reflect.Bool:
			v.SetBool(true)
		case v.Kind() == reflect.String:
			v.SetString("x")
		default:
			v.SetZero()
		}
		same := (&node{rule: &base}).text() == (&node{rule: &changed}).text()
		if _, exempt := followFromOthers[field.Name]; same != exempt {
			t.Errorf("%s: the same words %v, follows from others %v", field.Name, same, exempt)
		}
	}
}
