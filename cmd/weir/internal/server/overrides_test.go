package server

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/server/httpapi"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// TestOverridesByPages: pages of any length have each override once, in the order of the whole list,
// also if one of them is deleted between two pages.
func TestOverridesByPages(t *testing.T) {
	s, _ := newServer(t, nil, func(c *Config) {
		c.Policies = parsed(t, `  a: {limit: 2 per minute per user, overrides: [{for: {user: "f1"}, limit: 3 per minute per user, until: forever, why: x}]}
  b: {limit: 2 per minute per user, overrides: [{for: {user: "f2"}, limit: 3 per minute per user, until: forever, why: x}]}
`)
	})
	body := func(i int) string {
		return fmt.Sprintf(`{"key":{"user":"u%d"},"max":9,"reason":"r","author":"a"}`, i)
	}
	for i := range 5 {
		if r := ask(s, "PUT", "/v1/overrides/"+string("ab"[i%2]), body(i)); r.status != 200 {
			t.Fatal(r)
		}
	}
	read := func(query string) (keys []string, next string) {
		t.Helper()
		var list httpapi.OverrideList
		readStrictly(t, ask(s, "GET", "/v1/overrides"+query, "").body, &list)
		for _, o := range list.Overrides {
			keys = append(keys, o.Policy+" "+o.Key["user"])
		}
		return keys, list.Next
	}
	whole, _ := read("")
	want := []string{"a u0", "a u2", "a u4", "b u1", "b u3", "a f1", "b f2"}
	if !slices.Equal(whole, want) {
		t.Fatalf("the list is %q, want %q", whole, want)
	}
	for n := 1; n <= 8; n++ {
		var all []string
		for after, first := "", true; first || after != ""; first = false {
			query := fmt.Sprintf("?n=%d", n)
			if !first {
				query += "&after=" + url.QueryEscape(after)
			}
			keys, next := read(query)
			if len(keys) > n {
				t.Fatalf("%d on a page of %d", len(keys), n)
			}
			all = append(all, keys...)
			after = next
		}
		if !slices.Equal(all, want) {
			t.Errorf("by pages of %d: %q, want %q", n, all, want)
		}
	}
	_, next := read("?n=2")
	if r := ask(s, "DELETE", "/v1/overrides/a", `{"key":{"user":"u2"},"reason":"r","author":"a"}`); r.status != 200 {
		t.Fatal(r)
	}
	if keys, _ := read("?n=2&after=" + url.QueryEscape(next)); !slices.Equal(keys, want[2:4]) {
		t.Errorf("after the deletion of its place: %q, want %q", keys, want[2:4])
	}
	for _, query := range []string{"?n=0", "?n=x", "?n=10001", "?after=", "?after=x", "?after=f-1", "?user=u1"} {
		if r := ask(s, "GET", "/v1/overrides"+query, ""); r.status != 400 {
			t.Errorf("%s: %v, want 400", query, r)
		}
	}
}

// unconfirmed is an engine that loses its answers to changes of documents.
type unconfirmed struct{ *weir.Memory }

func (e unconfirmed) Documents() engine.Documents { return lostAnswers{e.Memory.Documents()} }

type lostAnswers struct{ engine.Documents }

func (d lostAnswers) Write(
	ctx context.Context, collection string, doc engine.Document,
) (engine.Document, error) {
	if _, err := d.Documents.Write(ctx, collection, doc); err != nil {
		return engine.Document{}, err
	}
	return engine.Document{}, fmt.Errorf("%w: the connection broke off", engine.ErrOutcomeUnknown)
}

// TestUnconfirmedChangeIsLogged: a change without an answer of the store may be made. The client is
// told so, and the log has the change.
func TestUnconfirmedChangeIsLogged(t *testing.T) {
	s, logged := newServer(t, unconfirmed{weir.NewMemory()})
	const answer = "the store has not confirmed the change, which may be made; " +
		"read the overrides again before you repeat it"
	set := ask(s, "PUT", "/v1/overrides/search", `{"key":{"ip":"1"},"max":9,"reason":"r1","author":"ann"}`)
	wantProblem(t, "a change", set, 503, answer)
	must.Do(t, s.overrides.Poll(context.Background())) // as a server does all the time
	play(t, s, `GET /v1/overrides => 200 …"max":9,…`)
	deleted := ask(s, "DELETE", "/v1/overrides/search", `{"key":{"ip":"1"},"reason":"r2","author":"bob"}`)
	wantProblem(t, "a deletion", deleted, 503, answer)
	must.Do(t, s.overrides.Poll(context.Background()))
	play(t, s, `GET /v1/overrides => 200 {"overrides":[]}`)
	for _, want := range []string{
		`level=WARN msg="an override may have been set: the store has not confirmed it" policy=search limit="" key="ip=1" author=ann reason=r1 new.max=9 new.until=forever`,
		`level=WARN msg="an override may have been deleted: the store has not confirmed it" policy=search limit="" key="ip=1" author=bob reason=r2 new=none`,
	} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("the log has no %s in\n%s", want, logged)
		}
	}
}

// TestOverridesOfNoPolicy: a path without the name of a policy lists no overrides of others.
func TestOverridesOfNoPolicy(t *testing.T) {
	s, _ := newServer(t, nil)
	play(t, s, `
		PUT /v1/overrides/search {"key":{"ip":"1"},"max":9,"reason":"r","author":"a"} => 200 …
		GET /v1/overrides/ => 404 no policy ""…
		DELETE /v1/overrides/ {"key":{"ip":"1"},"reason":"r","author":"a"} => 404 no policy ""…
		`)
}

// TestOverrideOfALaterVersion: an override that this version cannot read is listed with its key and
// the reason, does not apply, and can be deleted.
func TestOverrideOfALaterVersion(t *testing.T) {
	e := weir.NewMemory()
	s, _ := newServer(t, e)
	for name, text := range map[string]string{"search/limit?ip=9": `{"key":"ip=9"}`, "search/limit?ip=a%2Fb": `{}`, "odd": "?"} {
		_, err := e.Documents().Write(context.Background(), "overrides", engine.Document{Name: name, Text: text})
		must.Do(t, err)
	}
	must.Do(t, s.overrides.Poll(context.Background()))
	play(t, s, `
		let why "not_applied":"it is not in the form of this version; use the version that has set it"
		GET /v1/overrides => 200 …{"policy":"odd","key":{},"max":0,…
		…{"policy":"search","key":{"ip":"9"},"limit":"limit","max":0,"reason":"",…$why},…
		…{"policy":"search","key":{"ip":"a/b"},"limit":"limit",…$why}…
		POST /v1/peek {"policy":"search","key":{"ip":"9"}} => 200 …"max":2,…
		PUT /v1/overrides/search {"key":{"ip":"9"},"max":9,"reason":"r","author":"a"}
		  If-None-Match: *
		=> 412 weir: another version of this program has changed the override; delete it first
		DELETE /v1/overrides/search {"key":{"ip":"9"},"reason":"r","author":"a"} => 200 {"deleted":{"policy":"search","key":{"ip":"9"},…
		GET /v1/overrides/search?ip=9 => 200 {"overrides":[]}
		`)
}
