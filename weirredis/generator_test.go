package weirredis

import (
	"embed"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/weirlimit/weir"
)

// source holds the templates of all scripts. The program has only the scripts made from
// them, in lua/generated.
//
//go:embed lua/*.lua
var source embed.FS

// sources are the templates, lua/….lua.
var sources = []string{"number", "seek", "history", "write", "request", "operation", "quick", "kinds", "flow", "decide",
	"one", "batch", "many", "once", "refund", "count", "reset", "check", "bucket", "buckets"}

// state are the names of a history's state that its script keeps in local variables or
// in a table. lua/history.lua describes them. Scripts declare further ones themselves.
var state = strings.Fields(`s p q z o late from to low top wide last newest first units total lives
	cut used ls lp lq lc lu own edge push redated room closed wait reset next gapwait`)

// kindState are further names in scripts for all kinds.
var kindState = strings.Fields(`debt frac since ahead unit part per most wasunit waspart wasper
	edge1 edge2 edge3 edge4 begin ends`)

// shape is the difference between scripts of one template.
type shape struct {
	Limits int  // the state of so many limits is kept in local variables; 0 = of any number in tables
	Quick  bool // the most frequent decisions have a path of their own, lua/quick.lua
	Costs  bool // limits may have costs of their own
	Loop   bool // several decisions: functions are made once, before the loop
	Kinds  bool // limits of all kinds, lua/kinds.lua
}

// parameters are those of the templates that are used like functions.
var parameters = map[string]string{
	"get": "V S P", "put": "V E", "entry": "S P", "coded": "E D N", "head": "S", "grown": "E At N",
	"leave": "At Need", "mark": "V At", "lives": "Ends Span E", "sized": "E", "sizes": "E V N",
}

// Texts that templates insert. unroll replaces the first three.
const (
	each  = "\x01"   // begins a block that runs for every limit
	done  = "\x02"   // ends it
	index = "$index" // within it, the number of the limit, from 1

	// short declares local names for the functions of every decision.
	short = "local call, byte, sub, encode, decode = redis.call, string.byte, string.sub, struct.pack, struct.unpack\n"

	// need makes the functions for long histories, once.
	need = "if not seek then parse, seek, retreat = lengthy() end"
)

// generator expands the templates into scripts, one after the other.
type generator struct {
	sizes
	shape
	values    map[string]any // to which templates refer
	templates *template.Template
}

// newGenerator parses the templates.
func newGenerator(files fs.ReadFileFS, z sizes) (*generator, error) {
	g := &generator{sizes: z, templates: template.New("").Option("missingkey=error")}
	functions := template.FuncMap{
		"each": constant(each), "done": constant(done), "index": constant(index),
		"kinds": func() bool { return g.Kinds }, "left": g.left, "ends": g.ends,
		"period": constant[int64](periodCell), "bucket": constant[int64](bucketCell),
		"calendar": constant[int64](calendarCell), "firstHit": constant[int64](firstHitCell),
		"maxUnits": constant(weir.MaxUnits), "quick": func() bool { return g.Quick }, "units": g.units, "locals": g.locals,
		"hoist": g.hoist, "short": constant(short), "lengthy": g.lengthy, "need": constant(need),
		"fields": g.fields,
	}
	for name, names := range parameters {
		functions[name] = func(args ...any) (string, error) {
			values := maps.Clone(g.values)
			for i, parameter := range strings.Fields(names) {
				values[parameter] = args[i]
			}
			return g.expand(name, values)
		}
	}
	g.templates.Funcs(functions)
	for _, file := range sources {
		text, err := files.ReadFile("lua/" + file + ".lua")
		if err != nil {
			return nil, err
		}
		if _, err := g.templates.New(file).Parse(string(text)); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// constant returns a function of templates whose result is v.
func constant[T any](v T) func() T { return func() T { return v } }

// generateAll returns the texts of scripts, with comments, by name.
func generateAll(files fs.ReadFileFS, z sizes, recipes []recipe) (map[string]string, error) {
	g, err := newGenerator(files, z)
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for _, r := range recipes {
		if texts[r.name], err = g.generate(r); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// generate returns the text of one script, with comments.
func (g *generator) generate(r recipe) (string, error) {
	g.shape = r.shape
	g.values = map[string]any{
		"Run": g.Run, "Piece": g.Piece, "Chunk": g.Chunk, "Block": g.Block,
		"Single": g.Limits == 1, "Tables": g.Limits == 0, "Quick": g.Quick, "Costs": g.Costs, "Loop": g.Loop, "Kinds": g.Kinds,
		"Range": []int{1, 2, 3}[:g.Limits], // the limits whose state is kept in local variables
	}
	text, err := g.expand(r.file, g.values)
	return g.unroll(text), err
}

// expand executes a template.
func (g *generator) expand(name string, values map[string]any) (string, error) {
	var b strings.Builder
	err := g.templates.ExecuteTemplate(&b, name, values)
	return b.String(), err
}

// units is the expression for the units that a limit is charged.
func (g *generator) units() string {
	if g.Costs {
		return "$n"
	}
	return "n"
}

// left is the time from now until the entry of a mark leaves.
func (g *generator) left(mark string) string {
	if g.Kinds {
		return "($ends and $ends - now or " + mark + " - now + $window)"
	}
	return mark + " - now + $window"
}

// ends is the instant from which a key is not needed any more.
func (g *generator) ends() string {
	ends := "$window + ($newest > $last and $newest or $last)"
	if g.Kinds {
		ends = "$ends and math.max($ends, $last + $gap) or " + ends
	}
	return ends
}

// state returns the names of a history's state.
func (g *generator) state() []string {
	if g.Kinds {
		return append(slices.Clip(state), kindState...)
	}
	return state
}

// fields declares the state of a history in a table. A table that is filled field by field
// grows six times.
func (g *generator) fields() string { return strings.Join(g.state(), " = false, ") + " = false" }

// locals declares the state of the history of limit i.
func (g *generator) locals(i int) string {
	return g.place("local $"+strings.Join(g.state(), ", $"), i)
}

// hoist declares local names for functions.
func (g *generator) hoist() (string, error) {
	functions, err := g.lengthy()
	return short + functions, err
}

// lengthy declares the functions for long histories. A script makes them only when it
// needs them, because making them costs a tenth of a decision.
func (g *generator) lengthy() (string, error) {
	functions, err := g.expand("lengthy", g.values)
	return functions + "\nlocal parse, seek, retreat", err
}

// unroll repeats the blocks for every limit, or makes loops of them, and replaces every
// $name by its variable.
func (g *generator) unroll(text string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, each)
		b.WriteString(g.place(before, 1))
		if !found {
			return b.String()
		}
		block, after, _ := strings.Cut(rest, done)
		if g.Limits == 0 {
			b.WriteString("for index = 1, count do local H = limits[index]" + g.place(block, 0) + "end")
		}
		for i := 1; i <= g.Limits; i++ {
			b.WriteString("do" + g.place(block, i) + "end ")
		}
		text = after
	}
}

// place replaces the $names of limit i by h1_name, or by H.name in tables.
func (g *generator) place(text string, i int) string {
	number, prefix := strconv.Itoa(i), "h"+strconv.Itoa(i)+"_"
	if g.Limits == 0 {
		number, prefix = "index", "H."
	}
	return strings.NewReplacer(index, number, "$", prefix).Replace(text)
}

// recipe is a script and its way from the source.
type recipe struct {
	name, file string
	shape
}

// recipes are those of all scripts.
var recipes = []recipe{
	{"one", "one", shape{Limits: 1, Quick: true}},                  // one request under one limit
	{"batch", "batch", shape{Limits: 1, Quick: true, Loop: true}},  // several of them
	{"two", "many", shape{Limits: 2, Costs: true, Loop: true}},     // requests under two limits
	{"three", "many", shape{Limits: 3, Costs: true, Loop: true}},   // requests under three limits
	{"many", "many", shape{Costs: true, Loop: true}},               // requests under any number of limits
	{"bucket", "bucket", shape{Limits: 1}},                         // one request under one bucket
	{"buckets", "buckets", shape{Limits: 1, Loop: true}},           // several of them
	{"kinds", "many", shape{Costs: true, Loop: true, Kinds: true}}, // requests under limits of all kinds
	{"once", "once", shape{Costs: true, Kinds: true}},              // a request with an idempotency key
	{"refund", "refund", shape{Kinds: true}},
	{"count", "count", shape{Limits: 1, Kinds: true}},
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

// makeScripts makes scripts from the templates.
func makeScripts(z sizes, recipes []recipe) scripts {
	texts, err := generateAll(source, z, recipes)
	if err != nil {
		panic(err)
	}
	made := scripts{}
	for name, text := range texts {
		made[name] = newScript(name, text)
	}
	return made
}
