package enforce

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/fallback"
)

// item returns an attempt of the rule of that name.
func itemOf(rules []*Rule, name, user string, n int64) Item {
	i := slices.IndexFunc(rules, func(r *Rule) bool { return r.Name == name })
	return Item{Rule: rules[i], Request: Request{Target: Target{Key: weir.K(user), Plan: None}, N: n}}
}

// TestTogether: items are charged all or none. A shadow denies nothing, and is charged only
// with the others.
func TestTogether(t *testing.T) {
	ctx := context.Background()
	rules := batchRules(t, fallback.New(weir.NewMemory(), fallback.Deny))
	gold := itemOf(rules, "plans", "a", 3)
	gold.Plan = 0
	items := []Item{itemOf(rules, "shadow", "a", 3), itemOf(rules, "plain", "a", 2), gold, itemOf(rules, "warns", "a", 2), itemOf(rules, "plans", "c", 1)}
	if err := DecideTogether(ctx, items); err != nil {
		t.Fatal(err)
	}
	for i := range items {
		o := &items[i].Outcome
		if !o.Allowed || o.Granted != items[i].N || items[i].Err != nil || o.Variation == nil || o.Applied.Shadow != (i == 0) || (o.Applied.Warnings != nil) != (i == 3) {
			t.Errorf("item %d: %+v", i, o)
		}
	}
	if o := &items[0].Outcome; o.Applied.Would.Allowed || o.Applied.Would.Limit == "" {
		t.Errorf("the shadow: %+v, want a denial that is not enforced", o.Applied)
	}
	denied := []Item{itemOf(rules, "plain", "a", 1), itemOf(rules, "shadow", "b", 2), itemOf(rules, "plain", "b", 4), itemOf(rules, "warns", "a", 1)}
	if err := DecideTogether(ctx, denied); err != nil {
		t.Fatal(err)
	}
	for i := range denied {
		o := &denied[i].Outcome
		if o.Allowed || o.Granted != 0 || o.RetryAfter != weir.Never || (o.Limit != "") != (i == 2) || o.Applied.Warnings != nil || o.Applied.Shadow != (i == 1) {
			t.Errorf("denied item %d: %+v", i, o)
		}
	}
	if !denied[1].Outcome.Applied.Would.Allowed {
		t.Error("the shadow has room")
	}
	shadows := []Item{itemOf(rules, "shadow", "b", 2), itemOf(rules, "shadow", "b", 1)}
	if err := DecideTogether(ctx, shadows); err != nil || !shadows[0].Outcome.Applied.Would.Allowed || shadows[1].Outcome.Applied.Would.Allowed || !shadows[1].Outcome.Allowed {
		t.Errorf("%+v, %v; want a shadow that was not charged before", shadows, err)
	}
}

// TestTogetherWarns: the use that counts is that after all calls, and before the first (R7).
func TestTogetherWarns(t *testing.T) {
	rules := batchRules(t, fallback.New(weir.NewMemory(), fallback.Deny))
	for _, step := range []struct {
		users string
		warns []bool
	}{
		{"aab", []bool{true, true, false}}, {"ab", []bool{false, true}},
		{"cd", []bool{false, false}}, {"cc", []bool{true, true}}, // the first of both reaches the share
	} {
		var items []Item
		for _, user := range step.users {
			items = append(items, itemOf(rules, "warns", string(user), 1))
		}
		items = append(items, itemOf(rules, "plain", step.users, 1))
		if err := DecideTogether(context.Background(), items); err != nil {
			t.Fatal(err)
		}
		for i, want := range append(step.warns, false) {
			if got := items[i].Outcome.Applied.Warnings; (got != nil) != want {
				t.Errorf("%s: item %d has the warnings %q, want one: %v", step.users, i, got, want)
			}
		}
	}
}

// TestTogetherRejects: a policy that cannot be decided with others is an error of its item,
// and so is any other bad input. Nothing changes.
func TestTogetherRejects(t *testing.T) {
	ctx := context.Background()
	m := weir.NewMemory()
	rules := batchRules(t, fallback.New(m, fallback.Deny))
	key := itemOf(rules, "shadow", "a", 1)
	key.Key = weir.K("a", "b")
	before := itemOf(rules, "plain", "a", 1)
	before.Err = errors.New("before")
	id := itemOf(rules, "plain", "b", 1)
	id.ID = "op"
	open := itemOf(rules, "part", "a", 1)
	other := *open.Rule.Definition
	var err error
	if open.Rule, err = NewRule(&other, weir.NewMemory()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		item Item
		text string
	}{
		"blocks":   {itemOf(rules, "blocks", "a", 1), `policy "blocks" blocks keys`},
		"reported": {itemOf(rules, "reported", "a", 1), `policy "reported" counts reported units`},
		"store":    {open, `policy "part" has another store than policy "plain"`},
		"a key":    {key, "bad key"},
		"an error": {before, "before"},
		"an id":    {id, "idempotency key"},
		"units":    {itemOf(rules, "plain", "a", weir.MaxUnits), "earlier call"},
	} {
		items := []Item{itemOf(rules, "shadow", "a", 1), itemOf(rules, "plain", "a", 1), c.item}
		var of *weir.CallError
		err := DecideTogether(ctx, items)
		if !errors.As(err, &of) || of.Call != 2 || !strings.Contains(err.Error(), c.text) || items[1].Outcome.Variation != nil {
			t.Errorf("%s: %v, want %q of item 2", name, err, c.text)
		}
	}
	if m.Len() != 0 {
		t.Errorf("%d histories, want none", m.Len())
	}
	out := batchRules(t, down{weir.NewMemory()})
	items := []Item{itemOf(out, "plain", "a", 1), itemOf(out, "shadow", "a", 1)}
	if err := DecideTogether(ctx, items); !errors.Is(err, errDown) || items[1].Outcome.Allowed {
		t.Errorf("without the store: %v, %+v", err, items)
	}
}
