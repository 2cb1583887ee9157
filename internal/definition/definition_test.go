package definition

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/policy"
)

// TestFormNotesNameAddressesWithoutKeys: a key that is called like an address and has no form is
// probably a mistake. So is an override for a network of another key.
func TestFormNotesNameAddressesWithoutKeys(t *testing.T) {
	f, err := policy.Parse("weir.yaml", []byte(`version: 1
policies:
  text:   {limit: 1 per minute per ip}
  both:   {limit: 1 per minute per addr per address per peer}
  good:   {limit: 1 per minute per ip, keys: {ip: address}}
  subnet:
    limit: 1 per minute per subnet
    overrides:
      - {for: {subnet: 10.0.0.0/8}, limit: 2 per minute, until: forever, why: x}
      - {for: {subnet: 2001:db8::/64}, limit: 2 per minute, until: forever, why: one client}
`))
	if err != nil {
		t.Fatal(err)
	}
	var notes []string
	for _, p := range f.Policies {
		notes = append(notes, FormNotes(p)...)
	}
	assert.Equal(t, strings.Join(notes, "\n"), strings.Join([]string{
		"line 3: text counts by ip as text, so each IPv6 address and each written form has a history of its own; add keys: {ip: address}",
		"line 4: both counts by addr as text, so each IPv6 address and each written form has a history of its own; add keys: {addr: address}",
		"line 4: both counts by address as text, so each IPv6 address and each written form has a history of its own; add keys: {address: address}",
		`line 9: the override of subnet for subnet: "10.0.0.0/8" matches that very text only; for the addresses of the network add keys: {subnet: address}`,
	}, "\n"), "notes")
}
