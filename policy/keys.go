package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/clientaddr"
	"github.com/weirlimit/weir/internal/yamlnode"
)

// addressForm is the word in keys: that declares the values of a key as addresses. A length of the
// IPv6 prefix may follow it, as in address/56.
const addressForm = "address"

// useForm is the next step after another form.
var useForm = fmt.Sprintf("write address, or address/56 to count IPv6 addresses by their /56; "+
	"address/%d to address/%d are possible", clientaddr.MinBits, clientaddr.MaxBits)

// readForms reads the forms of the values of keys.
func (d *policyBuilder) readForms() {
	_, keys := find(d.words, "keys")
	if keys == nil {
		return
	}
	wantFilled(yamlnode.Map, keys, "write keys: {ip: address}",
		"keys: is %s, not a map of keys and their forms")
	for name, form := range keys.Pairs() {
		d.try(func() { d.setForm(name, form) })
	}
}

// setForm sets the form of one key.
func (d *policyBuilder) setForm(name, form *yamlnode.Node) {
	p := d.policy
	switch {
	case !slices.Contains(p.Dimensions(), name.Text):
		next := "count by a key, as in 10 per minute per ip"
		if len(p.Dimensions()) > 0 {
			next = nextName(name.Text, p.Dimensions(), "it counts by ")
		}
		fail(name.Offset, next, "%s is not a key the policy counts by", clip(name.Text))
	case name.Text == p.PlanBy:
		fail(name.Offset, "write overrides for the addresses, which may name networks",
			"plan-by is %s, and no plan has the name of an address", p.PlanBy)
	}
	bits, ok := parseForm(form)
	if !ok {
		fail(form.Offset, useForm, "%s: %s is not a form of keys", name.Text, quote(form))
	}
	if p.Addresses == nil {
		p.Addresses = map[string]int{}
	}
	p.Addresses[name.Text] = bits
}

// parseForm reads a form, and returns the length of the IPv6 prefix that counts as one client.
func parseForm(form *yamlnode.Node) (bits int, ok bool) {
	word, digits, hasBits := strings.Cut(form.Text, "/")
	if form.Kind != yamlnode.Scalar || word != addressForm {
		return 0, false
	}
	if !hasBits {
		return clientaddr.Bits, true
	}
	bits, err := strconv.Atoi(digits)
	exact := err == nil && strconv.Itoa(bits) == digits
	return bits, exact && bits >= clientaddr.MinBits && bits <= clientaddr.MaxBits
}

// namedValue reads a value of for:. An address gets its counted form.
func (v *overrideBuilder) namedValue(name, value *yamlnode.Node) Dimension {
	d := dimension(name, value)
	bits, isAddress := v.policy.Addresses[name.Text]
	if !isAddress {
		rejectNetwork(value, d)
		return d
	}
	r, err := clientaddr.ParseRange(d.Value, bits)
	if err != nil {
		fail(value.Offset, err.Next, "%s: %s %s", d.Name, clip(d.Value), err.Problem)
	}
	if !r.One {
		if v.network != "" {
			fail(value.Offset, "write an override for each address of one of the two",
				"two networks in one override, for %s and %s", v.network, d.Name)
		}
		v.network = d.Name
	}
	return Dimension{d.Name, r.Text()}
}

// rejectNetwork fails for a network of a key that is called like an address and has no form:
// it would match no address. The counted form of one client is a value like any other.
func rejectNetwork(value *yamlnode.Node, d Dimension) {
	if clientaddr.IsName(d.Name) && clientaddr.IsNetwork(d.Value) {
		fail(value.Offset, "add keys: {"+d.Name+": address} to the policy",
			"%s: %s is a network, and without keys: only that very text matches",
			d.Name, clip(d.Value))
	}
}

// formsText returns the forms of keys as in the file, sorted; "" if there are none.
func (p *Definition) formsText() string {
	var forms []string
	for name, bits := range p.Addresses {
		form := name + ": " + addressForm
		if bits != clientaddr.Bits {
			form += "/" + strconv.Itoa(bits)
		}
		forms = append(forms, form)
	}
	if forms == nil {
		return ""
	}
	slices.Sort(forms)
	return "{" + strings.Join(forms, ", ") + "}"
}
