// Package strictyaml reads the part of YAML 1.2 that people write by hand, and rejects
// the rest with an error that names it.
//
// It reads one document of block and flow maps and lists, plain, quoted and block text,
// and comments. JSON is part of it. It rejects parts of YAML that hide their meaning or
// cost more than their size: anchors, aliases, tags, merge keys, directives, a second
// document, duplicate keys, collections as keys, tabs as indentation, invisible
// characters and nesting below 32 levels.
//
// [Read] returns a tree of Nodes with the text as written. Callers interpret numbers and
// words.
//
// # Trade-off
//
// Some files of general YAML readers are rejected, and none is read with another meaning.
// The YAML test suite and a differential fuzz test against goccy/go-yaml check both. In
// return the cost is linear in the size of the file, every byte has a line and a column,
// and an error names the correct form.
//
// Three libraries were tried in its place. goccy/go-yaml 1.19.2 needs 28 s and 25 GB of
// allocations for 100 KB of empty lines below a "|". Errors of go.yaml.in/yaml/v3 3.0.6
// have no column and often the wrong line; it reads 22 texts of the test suite that YAML
// forbids, and rejects 10 that this package reads.
//
// go.yaml.in/yaml/v4 4.0.0 has a column for nearly every error and agrees on all 135 texts that
// this package reads. But it keeps the tokens of a collection that begins a line, and 1.5
// KB for each comment: 1 MiB of JSON takes 0.9 s and 578 MB, and 1 MiB of commented items
// 195 MB. This package takes 40 ms and 30 MB, and 53 MB. A limit on tokens would reject
// ordinary files of that size. It also rejects surrogate pairs in JSON strings, such as
// "\ud83d\ude00", and reads six texts that YAML forbids. Its error texts would need a
// table of next steps.
package strictyaml
