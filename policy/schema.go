package policy

import (
	_ "embed"
	"slices"
)

//go:embed weir.schema.json
var schemaSource []byte

// Schema returns a JSON Schema (2020-12) of the policy file, for editors that check and
// complete it. It is generated from the tables of words that Parse uses. Parse checks
// more, such as ranges and names used twice.
func Schema() []byte { return slices.Clone(schemaSource) }
