package weirredis

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"
	"sync"
)

// Script is a Lua script that a Conn runs.
type Script struct {
	Name string
	Text string
	SHA1 string // of Text, in lower-case hexadecimal, for EVALSHA
}

// generated holds the texts of all scripts. A test compares them with the templates in
// lua, from which it also writes them.
//
//go:embed lua/generated/*.lua
var generated embed.FS

// scripts are those of an engine, by name. They share every line that decides. The state
// of up to three histories is kept in local variables, which is fastest; the state of more
// is kept in tables.
type scripts map[string]*Script

// scriptNames are the names of all scripts.
var scriptNames = []string{
	"one",     // one request under one limit
	"batch",   // several of them
	"two",     // requests under two limits
	"three",   // requests under three limits
	"many",    // requests under any number of limits
	"bucket",  // one request under one Bucket
	"buckets", // several of them
	"kinds",   // requests under limits of all kinds
	"once",    // a request with an idempotency key
	"refund", "count", "reset", "check",
}

// standard returns the scripts in use. They are made for the first engine, not in every
// program that links this package.
var standard = sync.OnceValue(func() scripts {
	made := scripts{}
	for _, name := range scriptNames {
		text, err := generated.ReadFile("lua/generated/" + name + ".lua")
		if err != nil {
			panic("weirredis: " + err.Error()) // the files are part of the program
		}
		made[name] = newScript(name, string(text))
	}
	return made
})

// newScript makes a script of its text without empty lines, indentation and comment lines.
func newScript(name, text string) *Script {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "--") {
			b.WriteString(line + "\n")
		}
	}
	sum := sha1.Sum([]byte(b.String()))
	return &Script{Name: name, Text: b.String(), SHA1: hex.EncodeToString(sum[:])}
}

// forLimits returns the script for requests under so many limits.
func (s scripts) forLimits(n int) *Script {
	switch n {
	case 2:
		return s["two"]
	case 3:
		return s["three"]
	}
	return s["many"]
}

// forRequest returns the script for one request.
func (s scripts) forRequest(req *request) *Script {
	switch {
	case req.way == wayBucket:
		return s["bucket"]
	case req.way == wayKinds:
		return s["kinds"]
	case req.limits() == 1:
		return s["one"]
	}
	return s.forLimits(req.limits())
}

// compose returns the script, keys and arguments of a batch; its requests are of one
// queue.
func (s scripts) compose(requests []shared) (script *Script, keys, args []string) {
	limits, way := requests[0].limits(), requests[0].way
	keys = make([]string, 0, len(requests)*limits)
	if limits > 1 || way == wayKinds {
		args = make([]string, 0, len(requests))
		for i := range requests {
			r := &requests[i]
			keys = append(keys, r.keys()...)
			args = append(args, manyTimes(r.arg, r.callers()))
		}
		if way == wayKinds {
			return s["kinds"], keys, args
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
	if way == wayBucket {
		return s["buckets"], keys, args
	}
	return s["batch"], keys, args
}
