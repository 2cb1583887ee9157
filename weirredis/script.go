package weirredis

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"io/fs"
	"sync"
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
	one    *Script // one decision under one limit
	batch  *Script // several of them
	two    *Script // decisions under two limits
	three  *Script // decisions under three limits
	many   *Script // decisions under any number of limits
	once   *Script // a decision that its caller gave an id
	refund *Script
	count  *Script
	reset  *Script
	check  *Script
}

// sizes are where a history begins another string, in bytes but for block.
// Longer strings cost time, since Redis's Lua hashes every byte of every string;
// shorter ones cost memory.
type sizes struct {
	Run   int // up to here a history stands in its header alone, at most 200
	Piece int // from here a tail becomes a piece of a chunk, at most 200
	Chunk int // up to here a chunk takes further pieces, at most 200
	Block int // so many chunks make a block
}

// standardSizes are those of scripts that decide. Tests also use some that cut
// histories into tiny pieces.
var standardSizes = sizes{Run: 88, Piece: 48, Chunk: 200, Block: 32}

// standard are the scripts that decide. They are generated when an engine is made,
// not whenever a program links this package.
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
	var s scripts
	for _, each := range []struct {
		script *(*Script)
		name   string
		file   string
		shape
	}{
		{&s.one, "one", "one", shape{Limits: 1, Quick: true}},
		{&s.batch, "batch", "batch", shape{Limits: 1, Quick: true, Loop: true}},
		{&s.two, "two", "many", shape{Limits: 2, Costs: true, Loop: true}},
		{&s.three, "three", "many", shape{Limits: 3, Costs: true, Loop: true}},
		{&s.many, "many", "many", shape{Costs: true, Loop: true}},
		{&s.once, "once", "once", shape{Costs: true}},
		{&s.refund, "refund", "refund", shape{}},
		{&s.count, "count", "count", shape{Limits: 1}},
		{&s.reset, "reset", "reset", shape{}},
		{&s.check, "check", "check", shape{}},
	} {
		text, err := g.generate(each.file, each.shape)
		if err != nil {
			return nil, err
		}
		*each.script = newScript(each.name, text)
	}
	return &s, nil
}

func newScript(name, text string) *Script {
	sum := sha1.Sum([]byte(text))
	return &Script{Name: name, Text: text, SHA1: hex.EncodeToString(sum[:])}
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
