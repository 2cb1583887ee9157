package redispeers

import (
	"context"
	"embed"
	"time"

	"github.com/redis/go-redis/v9"
)

// The scripts in lua are rewritten versions of the algorithms of well-known limiters and
// tutorials, including their faults.
//
//go:embed lua/*.lua
var texts embed.FS

// algorithm is one of these scripts with its use.
type algorithm struct {
	name        string
	note        string
	kind        kind
	file        string
	serverClock bool
	readsAll    bool
	size        string // the command that returns the length of the log, "" if it has none

	// arguments returns the keys and arguments of one decision. window is in microseconds.
	arguments func(limit, window int64, a Request) (keys []string, args []any)
	// entry is the command that stores one entry, nil if deciding is quick enough.
	entry func(a Request) []any
}

// SortedSet is the name of the script of most tutorials.
const SortedSet = "sorted set script"

// gridCells is the number of cells per window, the default of the grid's model.
const gridCells = 10_000

// plenty is the upper limit of the hierarchy. It is never reached.
const plenty = 1 << 40

func algorithms() []algorithm {
	byInstant := func(limit, window int64, a Request) ([]string, []any) {
		return []string{a.Key}, []any{a.At, window, limit}
	}
	return []algorithm{
		{name: SortedSet, kind: log, file: "sortedset", size: "ZCARD", arguments: byInstant,
			note: "the tutorials' script: member = instant, no TTL, returns yes or no"},
		{name: "list script", kind: log, file: "list", size: "LLEN", arguments: byInstant,
			note: "the tutorials' script: no TTL, returns yes or no"},
		{name: "two sorted sets", kind: log, file: "hierarchy", serverClock: true, size: "ZCARD", arguments: hierarchyArguments,
			note: "the hierarchical script: one set for all and one for the key; no TTL, returns yes or no"},
		{name: "grid script", kind: grid, file: "grid", readsAll: true, size: "ZCARD", arguments: gridArguments, entry: gridEntry,
			note: "as RisingStack's limiter, 10,000 cells a window: reads the whole set; returns remaining units and wait"},
		{name: "fixed window script", kind: fixed, file: "fixed", serverClock: true, arguments: fixedArguments,
			note: "the tutorials' script; returns yes or no"},
	}
}

func hierarchyArguments(limit, window int64, a Request) ([]string, []any) {
	return []string{"all", a.Key}, []any{window, int64(plenty), limit}
}

func gridArguments(limit, window int64, a Request) ([]string, []any) {
	return []string{a.Key}, []any{a.At, window, limit, max(window/gridCells, 1)}
}

func gridEntry(a Request) []any {
	return []any{"ZADD", a.Key, a.At, decimal(a.At) + " 1"}
}

func fixedArguments(limit, window int64, a Request) ([]string, []any) {
	return []string{a.Key}, []any{max(window/1000, 1), limit}
}

// script returns the algorithm's script with its hash.
func (g algorithm) script() *redis.Script {
	return redis.NewScript(string(must(texts.ReadFile("lua/" + g.file + ".lua"))))
}

// form returns the algorithm's decisions as commands.
func (g algorithm) form() Form {
	return Form{Name: g.name, Note: g.note, ServerClock: g.serverClock, ReadsAll: g.readsAll,
		New: func(limit int64, window time.Duration) Decider {
			s := scripted{algorithm: g, limit: limit, window: window.Microseconds(),
				text: string(must(texts.ReadFile("lua/" + g.file + ".lua"))), sha: g.script().Hash()}
			if g.entry == nil {
				return s
			}
			return filled{s}
		}}
}

// scripted decides by one call of its script.
type scripted struct {
	algorithm
	limit, window int64
	text, sha     string
}

func (s scripted) Scripts() []string { return []string{s.text} }

func (s scripted) Commands(a Request) [][]any {
	keys, args := s.arguments(s.limit, s.window, a)
	return [][]any{evalsha(s.sha, keys, args)}
}

func (s scripted) Held(ctx context.Context, c *redis.Client, a Request) (int64, error) {
	if s.size == "" {
		return 0, ErrNoLog
	}
	return c.Do(ctx, s.size, a.Key).Int64()
}

// filled is a scripted decider that also stores entries without a decision.
type filled struct{ scripted }

func (f filled) Entry(a Request) []any { return f.entry(a) }

// peer runs the algorithm through go-redis, one call per decision.
func (g algorithm) peer() Peer {
	return own(g.name, g.kind, g.note+"; through go-redis", func(addr string, limit int, window time.Duration) (Limiter, error) {
		c, script := client(addr), g.script()
		return &limiter{close: c.Close, allow: func(ctx context.Context, key string) (bool, error) {
			keys, args := g.arguments(int64(limit), window.Microseconds(), Request{Key: key, N: 1, At: time.Now().UnixMicro()})
			return granted(script.Run(ctx, c, keys, args...))
		}}, nil
	})
}

// granted reads a reply of 1 or 0, or an array that begins with it.
func granted(reply *redis.Cmd) (bool, error) {
	v, err := reply.Result()
	if list, ok := v.([]any); ok && len(list) > 0 {
		v = list[0]
	}
	return v == int64(1), err
}
