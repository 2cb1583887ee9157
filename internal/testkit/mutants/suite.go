package main

import _ "embed"

// suite is an engine with its mutants and its tests.
type suite struct {
	file   string // the name of list
	list   string
	dir    string  // base of file and package names, below the top of the module
	layers []layer // in the order of their runs

	// lastResort runs if all layers have passed. It has more time to find a race.
	lastResort layer
}

// layer is a part of an engine's tests: its package and the arguments of the test
// binary.
type layer struct {
	name, pkg string
	args      []string
}

//go:embed memory.txt
var memoryList string

var memory = suite{
	file: "memory.txt", list: memoryList, dir: ".",
	layers: []layer{
		{"vectors", ".", []string{"-test.run=^TestMemoryConformance$/^vectors$"}},
		{"differential", ".", []string{"-test.run=^TestMemoryConformance$/^differential$", "-weirtest.attempts=100000"}},
		{"hammer", ".", []string{"-test.run=^TestMemoryConformance$/^hammer$", "-weirtest.hammers=40"}},
		{"live", ".", []string{"-test.run=^TestMemoryConformance$/^live$", "-weirtest.hammers=8"}},
		{"once", ".", []string{"-test.run=^TestMemoryConformance$/^once$", "-test.count=20"}},
		{"unit", ".", []string{"-test.run=^Test(R1|NoA|Operations|NoD|Sweep|Virtual|Plan|Keys|Wait|Through|Correction|Second|Refused|Rejected|Peeks|MemoryRefund)"}},
		{"unit", "internal/keytable", nil},
		{"unit", "internal/window", nil},
		{"unit", "internal/slab", nil},
	},
	lastResort: layer{"hammer", ".", []string{"-test.run=^TestMemoryConformance$/^hammer$", "-weirtest.hammers=400"}},
}

//go:embed redis.txt
var redisList string

var redis = suite{
	file: "redis.txt", list: redisList, dir: "weirredis",
	layers: []layer{
		{"vectors", ".", []string{"-test.run=^TestConformance$/^rueidis$/^vectors$"}},
		{"differential", ".", []string{"-test.run=^TestLongHistories$/./^differential$|^TestConformance$/^rueidis$/^differential$", "-weirtest.attempts=20000"}},
		{"live", ".", []string{"-test.run=^TestConformance$/./^live$", "-weirtest.hammers=4"}},
		{"unit", ".", []string{"-test.skip=^Test(Conformance|LongHistories|SeveralProcesses)$"}},
		{"unit", "goredisconn", nil},
		{"unit", "rueidisconn", nil},
	},
	lastResort: layer{"hammer", ".", []string{"-test.run=^TestConformance$/./^hammer$|^TestSeveralProcesses$/^hammer$", "-weirtest.hammers=20"}},
}
