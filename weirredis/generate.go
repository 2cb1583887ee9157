package weirredis

import (
	"io/fs"
	"strconv"
	"strings"
	"text/template"
)

// sources are the templates, lua/….lua.
var sources = []string{"number", "seek", "history", "write", "request", "operation", "quick", "decide",
	"one", "batch", "many", "once", "refund", "count", "reset", "check"}

// state are the names of a history's state that its script keeps in local variables or
// in a table. lua/history.lua describes them. Scripts declare further ones themselves.
var state = strings.Fields(`s p q z o late from to low top wide last newest first units total lives
	cut used over extra ls lp lq lc lu own edge push sliced redated room closed wait reset next gapwait`)

// shape is the difference between scripts of one template.
type shape struct {
	Limits int  // the state of so many limits is kept in local variables; 0 = of any number in tables
	Quick  bool // the most frequent decisions have a path of their own, lua/quick.lua
	Costs  bool // limits may have costs of their own
	Loop   bool // several decisions: functions are made once, before the loop
}

// generator expands the templates into scripts, one after the other. Templates refer to
// its exported fields.
type generator struct {
	shape
	sizes

	Single, Tables bool // Limits is 1, is 0

	V, S, P, E, D, N, A, B, At, Need string // the arguments of a template that is used like a function

	templates *template.Template
}

// newGenerator parses the templates.
func newGenerator(files fs.ReadFileFS, z sizes) (*generator, error) {
	g := &generator{sizes: z, templates: template.New("")}
	g.templates.Funcs(template.FuncMap{
		"get": g.get, "put": g.put, "entry": g.entry, "coded": g.coded, "leave": g.leave, "head": g.head, "signed": g.signed, "grown": g.grown,
		"each": g.each, "done": g.done, "index": g.index,
		"mark": g.mark, "calendar": func() int64 { return calendarCell }, "firstHit": func() int64 { return firstHitCell },
		"quick": func() bool { return g.Quick },
		"units": g.units, "lives": g.lives, "sized": g.sized, "sizes": g.sizesOf,
		"hoist": g.hoist, "short": g.short, "lengthy": g.lengthy, "locals": g.locals, "fields": g.fields, "need": g.need,
	})
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

// generate returns the text of one script, with comments.
func (g *generator) generate(file string, s shape) (string, error) {
	g.shape, g.Single, g.Tables = s, s.Limits == 1, s.Limits == 0
	text, err := g.expand(file)
	return g.unroll(text), err
}

// expand executes a template on g.
func (g *generator) expand(name string) (string, error) {
	var b strings.Builder
	err := g.templates.ExecuteTemplate(&b, name, g)
	return b.String(), err
}

// with expands a template that is used like a function; set sets its arguments.
func (g *generator) with(name string, set func(g *generator)) (string, error) {
	c := *g
	set(&c)
	return c.expand(name)
}

func (g *generator) get(v, s, p string) (string, error) {
	return g.with("get", func(g *generator) { g.V, g.S, g.P = v, s, p })
}

func (g *generator) put(v, e string) (string, error) {
	return g.with("put", func(g *generator) { g.V, g.E = v, e })
}

func (g *generator) entry(s, p string) (string, error) {
	return g.with("entry", func(g *generator) { g.S, g.P = s, p })
}

func (g *generator) coded(e, delta, n string) (string, error) {
	return g.with("coded", func(g *generator) { g.E, g.D, g.N = e, delta, n })
}

func (g *generator) signed(e, a, b string) (string, error) {
	return g.with("signed", func(g *generator) { g.E, g.A, g.B = e, a, b })
}

func (g *generator) head(s string) (string, error) {
	return g.with("head", func(g *generator) { g.S = s })
}

func (g *generator) grown(e, at, n string) (string, error) {
	return g.with("grown", func(g *generator) { g.E, g.At, g.N = e, at, n })
}

func (g *generator) leave(at, need string) (string, error) {
	return g.with("leave", func(g *generator) { g.At, g.Need = at, need })
}

func (g *generator) mark(v, at string) (string, error) {
	return g.with("mark", func(g *generator) { g.V, g.At = v, at })
}

func (g *generator) lives(at, lives string) (string, error) {
	return g.with("lives", func(g *generator) { g.At, g.E = at, lives })
}

func (g *generator) sized(format string) (string, error) {
	return g.with("sized", func(g *generator) { g.E = format })
}

func (g *generator) sizesOf(head, units string, size int) (string, error) {
	return g.with("sizes", func(g *generator) { g.E, g.V, g.N = head, units, strconv.Itoa(size) })
}

// units is the expression for the units that a limit is charged.
func (g *generator) units() string {
	if g.Costs {
		return "$n"
	}
	return "n"
}

// each begins a block that runs for every limit; done ends it. Within it, index is the
// number of the limit, from 1. unroll replaces all three.
func (g *generator) each() string  { return "\x01" }
func (g *generator) done() string  { return "\x02" }
func (g *generator) index() string { return "$index" }

// unroll repeats the blocks for every limit, or makes loops of them, and replaces every
// $name by its variable.
func (g *generator) unroll(text string) string {
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

// place replaces the $names of limit i by h1_name, or by H.name in tables.
func (g *generator) place(text string, i int) string {
	index, prefix := strconv.Itoa(i), "h"+strconv.Itoa(i)+"_"
	if g.Tables {
		index, prefix = "index", "H."
	}
	return strings.NewReplacer("$index", index, "$", prefix).Replace(text)
}

// compact removes empty lines, indentation and comment lines.
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
func (g *generator) locals(i int) string {
	return g.place("local $"+strings.Join(state, ", $"), i)
}

// Range returns the numbers of the limits whose state is kept in local variables.
func (g *generator) Range() []int {
	var numbers []int
	for i := range g.Limits {
		numbers = append(numbers, i+1)
	}
	return numbers
}

// fields makes room in a table for the state of a history. A table that is filled field
// by field grows six times.
func (g *generator) fields() string { return strings.Join(state, " = false, ") + " = false" }

// hoist declares local names for functions.
func (g *generator) hoist() (string, error) {
	functions, err := g.lengthy()
	return g.short() + functions, err
}

// short declares local names for the functions of every decision.
func (g *generator) short() string {
	return "local call, byte, sub, encode, decode = redis.call, string.byte, string.sub, struct.pack, struct.unpack\n"
}

// lengthy declares the functions for long histories. A script makes them only when it
// needs them, because making them costs a tenth of a decision.
func (g *generator) lengthy() (string, error) {
	functions, err := g.expand("lengthy")
	return functions + "\nlocal parse, seek, retreat", err
}

// need makes the functions for long histories, once.
func (g *generator) need() string {
	return "if not seek then parse, seek, retreat = lengthy() end"
}
