// Package jsonschema has the words of JSON Schema that weir.schema.json uses, as Go types.
// The validator of other authors that reads the result is in the module of the program.
package jsonschema

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// Schema is a JSON Schema of draft 2020-12. The zero Schema accepts everything.
type Schema struct {
	Type       string             `json:"type,omitempty"`
	Properties map[string]*Schema `json:"-"`
	Items      *Schema            `json:"items,omitempty"`

	Schema string             `json:"$schema,omitempty"`
	Ref    string             `json:"$ref,omitempty"`
	Defs   map[string]*Schema `json:"$defs,omitempty"`

	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Default     json.RawMessage `json:"default,omitempty"`
	Examples    []any           `json:"examples,omitempty"`

	Enum        []any    `json:"enum,omitempty"`
	Const       *any     `json:"const,omitempty"`
	Minimum     *float64 `json:"minimum,omitempty"`
	Maximum     *float64 `json:"maximum,omitempty"`
	Pattern     string   `json:"pattern,omitempty"`
	MinItems    *int     `json:"minItems,omitempty"`
	UniqueItems bool     `json:"uniqueItems,omitempty"`

	MinProperties        *int     `json:"minProperties,omitempty"`
	MaxProperties        *int     `json:"maxProperties,omitempty"`
	Required             []string `json:"required,omitempty"`
	AdditionalProperties *Schema  `json:"additionalProperties,omitempty"`
	PropertyNames        *Schema  `json:"propertyNames,omitempty"`

	AnyOf []*Schema `json:"anyOf,omitempty"`
	OneOf []*Schema `json:"oneOf,omitempty"`
	Not   *Schema   `json:"not,omitempty"`

	PropertyOrder []string `json:"-"` // the names of all Properties in their order; nil: alphabetical
}

// Ptr returns a pointer to x.
func Ptr[T any](x T) *T { return &x }

// MarshalJSON writes a schema that accepts everything, or nothing, as a boolean.
func (s Schema) MarshalJSON() ([]byte, error) {
	type plain Schema
	all := struct {
		Type       string          `json:"type,omitempty"`
		Properties json.RawMessage `json:"properties,omitempty"`
		plain
	}{Type: s.Type, plain: plain(s)}
	if s.Properties != nil {
		order := s.PropertyOrder
		if order == nil {
			order = slices.Sorted(maps.Keys(s.Properties))
		}
		b := bytes.NewBufferString("{")
		for i, name := range order {
			property, err := json.Marshal(map[string]*Schema{name: s.Properties[name]})
			if err != nil {
				return nil, err
			}
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(property[1 : len(property)-1]) // without its braces
		}
		all.Properties = append(b.Bytes(), '}')
	}
	text, err := json.Marshal(all)
	switch string(text) {
	case `{}`:
		return []byte("true"), err
	case `{"not":true}`:
		return []byte("false"), err
	}
	return text, err
}
