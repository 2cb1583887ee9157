package weirredis

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
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
// up to three histories are decided on, their state stands in locals, which is
// fastest; where there are more, in a table each.
type scripts struct {
	plain      *Script // one decision under one limit without gap and cells, refusals not counted
	plainBatch *Script // several of them
	one        *Script // one decision under one limit
	batch      *Script // several of them
	two        *Script // decisions under two limits
	three      *Script // decisions under three limits
	many       *Script // decisions under any number of limits
	refund     *Script
	count      *Script
	reset      *Script
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
		{&s.plain, "one", shape{Limits: 1, Plain: true}},
		{&s.plainBatch, "batch", shape{Limits: 1, Plain: true, Loop: true}},
		{&s.one, "one", shape{Limits: 1}},
		{&s.batch, "batch", shape{Limits: 1, Loop: true}},
		{&s.two, "many", shape{Limits: 2, Loop: true}},
		{&s.three, "many", shape{Limits: 3, Loop: true}},
		{&s.many, "many", shape{Loop: true}},
		{&s.refund, "refund", shape{}},
		{&s.count, "count", shape{Limits: 1, Plain: true}},
		{&s.reset, "reset", shape{}},
	} {
		g := &generator{shape: each.shape, sizes: z, Single: each.Limits == 1, Tables: each.Limits == 0}
		text, err := g.generate(files, each.name)
		if err != nil {
			return nil, err
		}
		sum := sha1.Sum([]byte(text))
		*each.script = &Script{Name: each.name, Text: text, SHA1: hex.EncodeToString(sum[:])}
	}
	return &s, nil
}

// forLimits is the script for decisions under so many limits.
func (s *scripts) forLimits(n int) *Script {
	switch n {
	case 2:
		return s.two
	case 3:
		return s.three
	}
	return s.many
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
	Limits int  // the state of so many stands in locals; 0 = of any number in tables
	Plain  bool // no gap, no cells, not CountDenied, no callers merged into one
	Loop   bool // several decisions: functions are made once, in front
}

// generator expands the source into one script. Its exported fields are what
// templates refer to.
type generator struct {
	shape
	sizes

	Single, Tables bool // Limits is 1, is 0

	V, S, P, E, D, N, At, Need string // the arguments of a template that is used like a function

	templates *template.Template
}

func (g *generator) generate(files fs.ReadFileFS, name string) (string, error) {
	g.templates = template.New("")
	g.templates.Funcs(template.FuncMap{
		"get": g.get, "put": g.put, "entry": g.entry, "coded": g.coded, "leave": g.leave,
		"each": g.each, "done": g.done, "index": g.index, "plain": func() bool { return g.Plain },
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
	return compact(g.unroll(text)), err
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

// each begins a block that runs for every limit; done ends it. In between, index
// is the number of the limit, from 1. unroll replaces all three.
func (g generator) each() string  { return "\x01" }
func (g generator) done() string  { return "\x02" }
func (g generator) index() string { return "$index" }

// unroll repeats the blocks for every limit, or makes loops of them, and gives
// every $name its place.
func (g generator) unroll(text string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, g.each())
		b.WriteString(g.place(before, 1))
		if !found {
			return b.String()
		}
		block, after, _ := strings.Cut(rest, g.done())
		if g.Tables {
			b.WriteString("for index = 1, count do local H = limits[index]" + g.place(block, 0) + "end")
		}
		for i := 1; i <= g.Limits; i++ {
			b.WriteString("do" + g.place(block, i) + "end ")
		}
		text = after
	}
}

// place gives the names of limit i their place.
func (g generator) place(text string, i int) string {
	if g.Tables {
		text = strings.ReplaceAll(text, "$index", "index")
		return stateName.ReplaceAllString(text, "H.$1")
	}
	text = strings.ReplaceAll(text, "$index", strconv.Itoa(i))
	return stateName.ReplaceAllString(text, fmt.Sprintf("h%d_$1", i))
}

// compact leaves out empty lines, indentation and comments.
func compact(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "--") {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// locals declares the state of the history of limit i.
func (g generator) locals(i int) string {
	return g.place("local $"+strings.Join(state, ", $"), i)
}

// Range are the numbers of the limits whose state stands in locals.
func (g generator) Range() []int {
	var numbers []int
	for i := range g.Limits {
		numbers = append(numbers, i+1)
	}
	return numbers
}

// fields makes room in a table for the state of a history: filled one by one it
// would grow six times.
func (g generator) fields() string { return strings.Join(state, " = false, ") + " = false" }

// hoist makes locals of what is used more than once. The functions for long
// histories are made only when they are needed, which is seldom: making them
// costs a tenth of a decision.
func (g generator) hoist() (string, error) {
	functions, err := g.expand("lengthy")
	return "local call, byte, encode, decode = redis.call, string.byte, struct.pack, struct.unpack\n" +
		functions + "\nlocal parse, seek, retreat", err
}

// need makes sure that the functions for long histories are there.
func (g generator) need() string {
	return "if not seek then parse, seek, retreat = lengthy() end"
}
