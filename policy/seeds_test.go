package policy

import "strings"

// limitSeeds are limit lines that fuzzing found.
var limitSeeds = []string{
	"\n",
	`""`,
	"100",
	"0 00",
	"0 per A",
	"\xff per day",
	"unlimited ",
	"5 , per day",
	"00_1 per day",
	"5 per\u00a0minute",
	"0 per minute per \b\b",
	"0 per 0d per 0 per 1",
	"5 per minute,\n\t0s apart",
	"unlimited unlimited per day",
	"1 per 106751d, 106752d apart",
	"1 per minute per a per b per a",
	"unlimited per 1s per s, 1us apart",
	"0 A0 per 0d per 0 per a per a-_,2d",
	"5  bcdefghijklmnopqrstuvwxyzabcdefg per day",
	"9_007_199_254_740_991 x per 400d, 400d apart",
	"5 a-b per 15m per c per d , 3s apart ,\tthen block 0_1h",
	" " + strings.Repeat("0", 125),
	"5 per " + strings.Repeat("7", 1900) + "minute", // an error repeated the number, thousands of times
}

// parseSeeds are files that fuzzing found.
var parseSeeds = []string{
	",",
	"?",
	">A",
	"A:",
	"{:",
	"> 0",
	"-\n00",
	"{\"\n\"",
	"- \n: ",
	"---  0",
	"0: >\n0",
	"0\x100000",
	"'0000'0",
	"[[[[[[[[0",
	" 0: >\n \n \n 0",
	"000: {        ",
	"0: \n1:\n2:\n7:\n:",
	`{0:,1:,"\u00X0`,
	"policies:\n 0_A:",
	"policies:\n 0:\n  0000000:",
	"policies:\n 0:\n  limit: 00",
	"---\n#\n#\n    0: #\n    1: #\n",
	`{"0000000":"000000000"""""`,
	"policies:\n 0:\n  limit: 0A 0",
	"policies:\n 0:\n  limit: 0 pEr",
	"policies:\n 0:\n  limit: 0 per hour 0",
	"policies:A00:\n0000000: #000000000000",
	"policies:\n 0:\n  limit: 0 per minute,0",
	"policies:\n 0:\n  limits:\n     00: 0 per 0A",
	"policies:\n 0:\n  limits:\n     00: 0 per mInute",
	"    0: >\n     0\n     0\n     0\n    1: >\n     0\n0",
	"version: 1\npolicies:\n  a.block: {limit: 1 per 1s}\n  a: {limits: {b: {max: unlimited, block: 1ms}, c: \"0 per 1s, then block 400d\"}}\n",
}

// parseEdits are changes to fixtures, by their names, that fuzzing found: old, new, …
var parseEdits = map[string][][]string{
	"design":    {{"\n  transfers", "\r\n2 transfers", "\n", "\r\n", "two in", "two=in"}},
	"limits-17": {{"      l16", "  6  1l  "}, {"\n      l5: 5 p", "    55l\np   : "}},
	"long":      {{"limits", "lim)ts"}, {"0s", "0ames"}, {"user, 3s", "usAAAer, 3s"}},
	"sixteen":   {{"per k15", "pev k15"}},
	"unlimited": {
		{"window", "witdow"},
		{"unlimited per hour", "unlimitedtper hour", "long:", "lonBg:", "unlimited, window", "unlimi ed, window"},
	},
}
