package policy

import (
	_ "embed"
	"slices"
)

//go:embed weir.schema.json
var schemaSource []byte

// Schema returns a JSON Schema (2020-12) of the policy file, for editors that
// check and complete while one types. It is made from the tables of words that
// Parse reads by; Parse knows more, such as names used twice and ranges.
func Schema() []byte { return slices.Clone(schemaSource) }
