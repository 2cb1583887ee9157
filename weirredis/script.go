package weirredis

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"io/fs"
	"regexp"
	"strings"
	"text/template"
)

// Script is a Lua script as a Conn runs it.
type Script struct {
	Name string
	Text string
	SHA1 string // of Text, in lower-case hexadecimal, for EVALSHA
}

// source is the one source of all scripts; the comments in front of its files say
// how it reads.
//
//go:embed lua/*.lua
var source embed.FS

// scripts are generated from one source and share every line that decides. Where
// one history is decided on, its state stands in locals, which is fastest; where
// several are, in a table each.
type scripts struct {
	plain      *Script // one decision under one limit without gap and cells, refusals not counted
	plainBatch *Script // several of them
	one        *Script // one decision under one limit
	batch      *Script // several of them
	many       *Script // decisions under several limits
	refund *Script
	count  *Script
	reset  *Script
}

// sizes are where a history begins another string, in bytes but for block.
// Longer strings cost time, since Redis's Lua hashes every byte of every string;
// shorter ones cost memory.
type sizes struct {
	Run   int // up to here a history stands in its header alone, at most 200
	Chunk int // from here a tail becomes a chunk, at most 200
	Block int // so many chunks make a block
}

// standard are the scripts that decide. Tests also generate some whose histories
// are cut into tiny pieces.
var standard = must(makeScripts(source, sizes{Run: 160, Chunk: 96, Block: 32}))

func must(s *scripts, err error) *scripts {
	if err != nil {
		panic("weirredis: " + err.Error()) // the source is part of the program
	}
	return s
}

// makeScripts generates all scripts.
func makeScripts(files fs.ReadFileFS, z sizes) (*scripts, error) {
	var s scripts
	for _, each := range []struct {
		script *(*Script)
		name   string
		shape
	}{
		{&s.plain, "one", shape{Single: true, Plain: true}},
		{&s.plainBatch, "batch", shape{Single: true, Plain: true, Loop: true}},
		{&s.one, "one", shape{Single: true}},
		{&s.batch, "batch", shape{Single: true, Loop: true}},
		{&s.many, "many", shape{Loop: true}},
		{&s.refund, "refund", shape{}},
		{&s.count, "count", shape{Single: true, Plain: true}},
		{&s.reset, "reset", shape{}},
	} {
		g := &generator{shape: each.shape, sizes: z}
		text, err := g.generate(files, each.name)
		if err != nil {
			return nil, err
		}
		sum := sha1.Sum([]byte(text))
		*each.script = &Script{Name: each.name, Text: text, SHA1: hex.EncodeToString(sum[:])}
	}
	return &s, nil
}

// sources are the files of the source, lua/….lua.
var sources = []string{"number", "seek", "history", "write", "clock", "decide",
	"one", "batch", "many", "refund", "count", "reset"}

// state are the names of a history's state that its script may keep in locals,
// but for those it declares itself. lua/history.lua says what they are.
var state = strings.Fields(`s p q z o late from to low top last newest first units total lives
	cut used ls lp lq lc lu own edge push redated room closed wait reset next gapwait`)

// stateName matches $name, where the source speaks of a part of a history's state.
var stateName = regexp.MustCompile(`\$([a-z]+)`)

// shape is how a script differs from the others of one source.
type shape struct {
	Single bool // one limit: its state stands in locals; else in a table for each
	Plain  bool // no gap, no cells, not CountDenied, no callers merged into one
	Loop   bool // several decisions: functions are made once, in front
}

// generator expands the source into one script. Its exported fields are what
// templates refer to.
type generator struct {
	shape
	sizes

	V, S, P, E, D, N, At, Need string // the arguments of a template that is used like a function

	templates *template.Template
}

func (g *generator) generate(files fs.ReadFileFS, name string) (string, error) {
	g.templates = template.New("")
	g.templates.Funcs(template.FuncMap{
		"get": g.get, "put": g.put, "entry": g.entry, "coded": g.coded, "leave": g.leave,
		"each": g.each, "done": func() string { return "end" }, "index": g.index, "plain": func() bool { return g.Plain },
		"hoist": g.hoist, "locals": g.locals, "fields": g.fields, "need": g.need,
	})
	for _, file := range sources {
		text, err := files.ReadFile("lua/" + file + ".lua")
		if err != nil {
			return "", err
		}
		if _, err := g.templates.New(file).Parse(string(text)); err != nil {
			return "", err
		}
	}
	text, err := g.expand(name)
	prefix := "h_"
	if !g.Single {
		prefix = "H."
	}
	return stateName.ReplaceAllString(text, prefix+"$1"), err
}

// expand executes a template on g.
func (g generator) expand(name string) (string, error) {
	var b strings.Builder
	err := g.templates.ExecuteTemplate(&b, name, g)
	return b.String(), err
}

func (g generator) get(v, s, p string) (string, error) {
	g.V, g.S, g.P = v, s, p
	return g.expand("get")
}

func (g generator) put(v, e string) (string, error) {
	g.V, g.E = v, e
	return g.expand("put")
}

func (g generator) entry(s, p string) (string, error) {
	g.S, g.P = s, p
	return g.expand("entry")
}

func (g generator) coded(e, delta, n string) (string, error) {
	g.E, g.D, g.N = e, delta, n
	return g.expand("coded")
}

func (g generator) leave(at, need string) (string, error) {
	g.At, g.Need = at, need
	return g.expand("leave")
}

// each begins a block that runs for every limit; end ends it.
func (g generator) each() string {
	if !g.Single {
		return "for i = 1, count do local H = limits[i]"
	}
	return "do"
}

// index is the number of the limit in such a block, from 1.
func (g generator) index() string {
	if !g.Single {
		return "i"
	}
	return "1"
}

// locals declares the state of the one history.
func (g generator) locals() string { return "local $" + strings.Join(state, ", $") }

// fields makes room in a table for the state of a history: filled one by one it
// would grow six times.
func (g generator) fields() string { return strings.Join(state, " = false, ") + " = false" }

// hoist makes locals of what is used more than once. Without a loop the functions
// for long histories are made only when they are needed, which is seldom: making
// them costs a tenth of a decision.
func (g generator) hoist() (string, error) {
	functions, err := g.expand("lengthy")
	made := "\nlocal parse, seek, retreat"
	if g.Loop {
		made += " = lengthy()"
	}
	return "local call, byte, encode, decode = redis.call, string.byte, struct.pack, struct.unpack\n" + functions + made, err
}

// need makes sure that the functions for long histories are there.
func (g generator) need() string {
	if g.Loop {
		return ""
	}
	return "if not seek then parse, seek, retreat = lengthy() end"
}
