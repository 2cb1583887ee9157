package weirredis

import (
	"crypto/sha1"
	"embed"
	"fmt"
	"strings"

	"github.com/weirlimit/weir/engine"
)

// Script is a Lua script that a Conn runs.
type Script struct {
	Name string
	Text string
	SHA1 string // hash of Text, in lower-case hexadecimal, for EVALSHA
}

// newScript makes a script of its text.
func newScript(name, text string) *Script {
	return &Script{Name: name, Text: text, SHA1: fmt.Sprintf("%x", sha1.Sum([]byte(text)))}
}

//go:embed lua/*.lua
var luaFiles embed.FS

// readLua returns the text of a file of the folder lua.
func readLua(name string) string {
	text, err := luaFiles.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // the names are those of files in this folder
	}
	return string(text)
}

var (
	resetScript     = newScript("reset", readLua("reset"))
	checkScript     = newScript("check", readLua("check"))
	inspectScript   = newScript("inspect", readLua("inspect"))
	documentsScript = newScript("documents", readLua("documents"))
)

// parts are the files of the folder lua that requests need beside those for plain attempts. A
// server makes the functions of a script again in every call, which takes longer than a decision.
// So a call runs the smallest script with the parts that its requests need.
type parts uint8

const (
	partOther    parts = 1 << iota // a request is no plain attempt
	partBlock                      // a denial may begin a block
	partBucket                     // a limit is a bucket
	partHistory                    // a limit is none
	partRemember                   // a request has an idempotency key
	partCorrect                    // a request is none of an attempt, a peek, a probe and a record
	partAhead                      // an attempt may wait, or a history has appointments
)

// maxPlainUnits bounds the units of a plain attempt.
const maxPlainUnits = 1 << 15

// joined are the scripts that decide, the smallest first, with the files that are joined in their
// order. In the script plain the files behind plain.lua run only for an attempt that it leaves.
var joined = []struct {
	name  string
	parts parts
	files string // behind those that all scripts have
}{
	{
		name:  "plain",
		parts: partHistory,
		files: "number plain store history clock block decide finish",
	},
	{
		name:  "attempts",
		parts: partHistory | partOther,
		files: "number store history clock decide finish",
	},
	{
		name:  "buckets",
		parts: partBucket | partOther,
		files: "store bucket decide finish",
	},
	{
		name:  "mixed",
		parts: partHistory | partBucket | partBlock | partOther,
		files: "number store history clock block bucket decide finish",
	},
	{
		name:  "operations",
		parts: partHistory | partBlock | partRemember | partOther,
		files: "number store history clock block decide remember dispatch",
	},
	{
		name:  "waiting",
		parts: partHistory | partBucket | partBlock | partOther | partAhead,
		files: "number store history clock block bucket appointments decide finish",
	},
	{
		name:  "all",
		parts: ^parts(0),
		files: "number store history clock block bucket appointments decide " +
			"correct remember reservation dispatch",
	},
}

// scripts are the joined scripts, in their order.
type scripts []*Script

// standardScripts are the scripts of the files as they stand.
var standardScripts = joinScripts(readLua)

// joinScripts joins files that read returns.
func joinScripts(read func(name string) string) scripts {
	var all scripts
	for _, j := range joined {
		var texts []string
		for _, name := range strings.Fields("shared layout requests " + j.files) {
			texts = append(texts, read(name))
		}
		all = append(all, newScript(j.name, strings.Join(texts, "\n")))
	}
	return all
}

// with returns the smallest script with the parts.
func (s scripts) with(needed parts) *Script {
	for i, j := range joined {
		if needed&^j.parts == 0 {
			return s[i]
		}
	}
	return s[len(s)-1]
}

// parts returns the parts of scripts that a request needs.
func (req *request) parts() parts {
	needed := req.plan.parts
	if req.isPlain() && !req.ahead {
		return needed
	}
	needed |= partOther
	if req.ahead {
		needed |= partAhead
	}
	if req.plan.blocks {
		needed |= partBlock
	}
	if req.operation != "" {
		needed |= partRemember
	}
	switch req.op {
	case engine.Attempt, engine.Peek, engine.Record, engine.Probe:
	default:
		needed |= partCorrect
	}
	return needed
}

// isPlain reports whether lua/plain.lua decides a request, unless its histories are uncommon.
func (req *request) isPlain() bool {
	if req.op != engine.Attempt || req.states || req.operation != "" {
		return false
	}
	several := req.limits() == 1 && req.mode == engine.AllOrNothing && req.n <= maxPlainUnits
	return req.n == 1 || req.n > 1 && several
}

// partsOf returns the parts of scripts that requests need together.
func partsOf(answers []answer) parts {
	needed := parts(0)
	for i := range answers {
		needed |= answers[i].parts()
	}
	return needed
}
