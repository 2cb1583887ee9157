// Package yamlnode reads one YAML document into nodes with their places, through
// go.yaml.in/yaml/v4.
//
// [Read] rejects parts of YAML that hide their meaning: anchors, aliases, tags, merge keys,
// directives, collections as keys and "?" before a key. [ReadAll] reads them. Both reject a
// second document, duplicate keys, invisible characters and nesting below [MaxDepth] levels.
//
// Nodes have the text as written, and the type that YAML readers give to it. Callers
// interpret numbers and words.
//
// # Trade-off
//
// The library needs up to 500 bytes for each byte of the text, so callers bound the text. It
// reads some texts with wrong indentation that YAML forbids; none has another meaning. It
// rejects surrogate pairs in JSON strings, such as "\ud83d\ude00". The YAML test suite
// checks all three. A reader of our own needed 900 lines more.
package yamlnode
