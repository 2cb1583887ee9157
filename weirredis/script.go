package weirredis

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"io/fs"
	"sync"
)

// Script is a Lua script that a Conn runs.
type Script struct {
	Name string
	Text string
	SHA1 string // of Text, in lower-case hexadecimal, for EVALSHA
}

// source holds the templates of all scripts.
//
//go:embed lua/*.lua
var source embed.FS

// scripts are generated from one source and share every line that decides. The state of
// up to three histories is kept in local variables, which is fastest; the state of more
// is kept in tables.
type scripts struct {
	one    *Script // one request under one limit
	batch  *Script // several of them
	two    *Script // requests under two limits
	three  *Script // requests under three limits
	many   *Script // requests under any number of limits
	once   *Script // a request with an idempotency key
	refund *Script
	count  *Script
	reset  *Script
	check  *Script
}

// recipe is a script and its way from the source.
type recipe struct {
	name, file string
	shape
}

// recipes are those of all scripts.
var recipes = []recipe{
	{"one", "one", shape{Limits: 1, Quick: true}},
	{"batch", "batch", shape{Limits: 1, Quick: true, Loop: true}},
	{"two", "many", shape{Limits: 2, Costs: true, Loop: true}},
	{"three", "many", shape{Limits: 3, Costs: true, Loop: true}},
	{"many", "many", shape{Costs: true, Loop: true}},
	{"once", "once", shape{Costs: true}},
	{"refund", "refund", shape{}},
	{"count", "count", shape{Limits: 1}},
	{"reset", "reset", shape{}},
	{"check", "check", shape{}},
}

// sizes are the bounds at which a history begins another string: in bytes, except Block.
// Longer strings cost time, because Redis's Lua hashes every byte of every string.
// Shorter ones cost memory.
type sizes struct {
	Run   int // a history up to this size is kept in its header alone; at most 200
	Piece int // a tail of this size becomes a piece of a chunk; at most 200
	Chunk int // a chunk up to this size takes further pieces; at most 200
	Block int // chunks in a block
}

// standardSizes are those of the scripts in use. Tests also cut histories into tiny
// pieces.
var standardSizes = sizes{Run: 88, Piece: 48, Chunk: 200, Block: 32}

// standard returns the scripts in use. They are generated for the first engine, not in
// every program that links this package.
var standard = sync.OnceValue(func() *scripts { return must(makeScripts(source, standardSizes)) })

func must(s *scripts, err error) *scripts {
	if err != nil {
		panic("weirredis: " + err.Error()) // the source is part of the program
	}
	return s
}

// makeScripts generates all scripts.
func makeScripts(files fs.ReadFileFS, z sizes) (*scripts, error) {
	g, err := newGenerator(files, z)
	if err != nil {
		return nil, err
	}
	made := map[string]*Script{}
	for _, r := range recipes {
		text, err := g.generate(r.file, r.shape)
		if err != nil {
			return nil, err
		}
		made[r.name] = newScript(r.name, compact(text))
	}
	return &scripts{
		one: made["one"], batch: made["batch"], two: made["two"], three: made["three"], many: made["many"], once: made["once"],
		refund: made["refund"], count: made["count"], reset: made["reset"], check: made["check"],
	}, nil
}

func newScript(name, text string) *Script {
	sum := sha1.Sum([]byte(text))
	return &Script{Name: name, Text: text, SHA1: hex.EncodeToString(sum[:])}
}

// forLimits returns the script for requests under so many limits.
func (s *scripts) forLimits(n int) *Script {
	switch n {
	case 2:
		return s.two
	case 3:
		return s.three
	}
	return s.many
}

// forRequest returns the script for one request.
func (s *scripts) forRequest(req *request) *Script {
	if req.limits() == 1 {
		return s.one
	}
	return s.forLimits(req.limits())
}

// compose returns the script, keys and arguments of a batch; its requests are of one
// queue.
func (s *scripts) compose(requests []shared) (script *Script, keys, args []string) {
	limits := requests[0].limits()
	keys = make([]string, 0, len(requests)*limits)
	if limits > 1 {
		args = make([]string, 0, len(requests))
		for i := range requests {
			r := &requests[i]
			keys = append(keys, r.several...)
			args = append(args, manyTimes(r.arg, r.callers()))
		}
		return s.forLimits(limits), keys, args
	}
	// Most requests of a batch differ only in their keys. Each argument is sent once, and
	// a string of bytes holds the number of each request's argument.
	numbers := make([]byte, len(requests))
	args = append(args, "")
	known := map[string]byte{}
	last, number := "", byte(0)
	for i := range requests {
		r := &requests[i]
		keys = append(keys, r.joined)
		if arg := oneTimes(r.arg, r.callers()); arg != last {
			var ok bool
			if number, ok = known[arg]; !ok {
				args = append(args, arg)
				number = byte(len(args)) // Lua counts from 1
				known[arg] = number
			}
			last = arg
		}
		numbers[i] = number
	}
	args[0] = string(numbers)
	return s.batch, keys, args
}
