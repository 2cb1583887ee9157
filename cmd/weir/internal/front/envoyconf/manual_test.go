package envoyconf

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// manual loads the examples of the reference's manual.
func manual(t *testing.T) *Config {
	t.Helper()
	return must.Get(Load("testdata/manual"))(t)
}

// entries reads "key=value,key=value".
func entries(text string) (e []Entry) {
	for _, each := range strings.Split(text, ",") {
		key, value, _ := strings.Cut(each, "=")
		e = append(e, Entry{Name: key, Value: value})
	}
	return e
}

// matched returns the rule of a descriptor: its path and its numbers.
func matched(c *Config, domain, descriptor string) string {
	d := c.Domain(domain)
	if d == nil {
		return "no domain"
	}
	r := d.Match(entries(descriptor))
	switch {
	case r == nil:
		return "none"
	case r.Unlimited:
		return r.Path + " unlimited"
	}
	return fmt.Sprintf("%s %d per %v", strings.TrimPrefix(r.Path, domain+"."), r.Requests, r.Window)
}

func TestExamplesOfTheManualMatch(t *testing.T) {
	c := manual(t)
	if len(c.Warnings) > 0 || len(c.Domains) != 13 {
		t.Errorf("%d domains, warnings %q", len(c.Domains), c.Warnings)
	}
	text := must.Get(os.ReadFile("testdata/manual.txt"))(t)
	n := 0
	for line := range strings.Lines(string(text)) {
		call, want, found := strings.Cut(strings.TrimSpace(line), " -> ")
		if !found {
			continue
		}
		n++
		domain, descriptor, _ := strings.Cut(call, " ")
		if got := matched(c, domain, descriptor); got != want {
			t.Errorf("%s: got %s, want %s", call, got, want)
		}
	}
	if n < 40 {
		t.Errorf("%d descriptors, want at least 40", n)
	}
}

// The examples have these modes and names.
func TestModesOfTheManual(t *testing.T) {
	c := manual(t)
	rule := func(domain, descriptor string) *Rule { return c.Domain(domain).Match(entries(descriptor)) }
	if a, b := rule("example6", "service=x,user=user-a"), rule("example6", "service=x,user=user-b"); !a.Shadow || b.Shadow {
		t.Errorf("shadow_mode: %t, %t; want true, false", a.Shadow, b.Shadow)
	}
	if a, b := rule("example7", "key_1=value_1,user=bkthomps"), rule("example7", "key_2=value_2,user=bkthomps"); a.Name != "specific_limit" ||
		!slices.Equal(b.Replaces, []string{"specific_limit"}) || b.Name != "" {
		t.Errorf("replaces: %+v and %+v", a, b)
	}
	for _, told := range []struct{ domain, descriptor, levels, told string }{
		{"example8", "key1=other", "[key1]", "[0]"},
		{"example8", "key1=value1", "[key1_value1]", "[]"},
		{"example10", "route=api,http_method=GET,subject_id=123", "[route http_method subject_id]", "[0 1]"},
		{"example10", "user=alice,action=readfile,resource=documents", "[user action_read* resource]", "[0 1]"},
		{"example11", "route=api/v1,method=GET", "[route_api/* method]", "[]"}, // all of api/* share
	} {
		if r := rule(told.domain, told.descriptor); fmt.Sprint(r.Levels) != told.levels || fmt.Sprint(r.MetricLevels) != told.told {
			t.Errorf("%s: metrics tell apart %v of %v, want %s of %s", told.descriptor, r.MetricLevels, r.Levels, told.told, told.levels)
		}
	}
	if r := rule("quota", "service=service_2"); !r.Quota {
		t.Errorf("quota: %+v", r)
	}
	if r := rule("further", "five_minutes=1"); r.Multiplier != 5 || r.Unit != Minute || r.Window != 5*time.Minute {
		t.Errorf("unit_multiplier: %+v", r)
	}
	if r := rule("further", "yes_and_no=yes"); r.Shadow {
		t.Error("shadow_mode: no is true")
	}
}

// Requests with the same rule and values share a history.
func TestSharedHistories(t *testing.T) {
	c := manual(t)
	history := func(domain, descriptor string) string {
		e := entries(descriptor)
		r := c.Domain(domain).Match(e)
		name := c.Domain(domain).Policy + "/" + r.History
		for _, i := range r.Varying {
			name += "/" + e[i].Value
		}
		return name
	}
	for _, each := range []struct {
		domain, a, b string
		same         bool
	}{
		{"example11", "files=files/a.pdf", "files=files/b.csv", true},
		{"example11", "files=files/a.pdf", "files=files/*", true},
		{"example11", "files_no_share=files_no_share/a.pdf", "files_no_share=files_no_share/b.csv", false},
		{"example11", "route=api/v1,method=GET", "route=api/v2,method=GET", true},
		{"example11", "route=api/v1,method=GET", "route=api/v1,method=PUT", false},
		{"edge_proxy_per_ip", "remote_address=50.0.0.1", "remote_address=50.0.0.2", false},
		{"example9", "key1=value1", "key1=value2", false},
		{"messaging", "message_type=marketing,to_number=1", "to_number=1", false},
		{"mongo_cps", "database=users", "database=default", false},
	} {
		if got := history(each.domain, each.a) == history(each.domain, each.b); got != each.same {
			t.Errorf("%s and %s share a history: %t, want %t", each.a, each.b, got, each.same)
		}
	}
}
