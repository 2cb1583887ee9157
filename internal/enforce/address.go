package enforce

import (
	"fmt"
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/clientaddr"
)

// setAddresses sets the dimensions that hold addresses. The error is that of a Definition that a
// program has made; policy.Parse makes none with it.
func (r *Rule) setAddresses() error {
	fail := func(format string, args ...any) error {
		return &weir.PolicyError{
			Policy:  r.Name,
			Field:   "Addresses",
			Problem: fmt.Sprintf(format, args...),
		}
	}
	for name, bits := range r.Addresses {
		i := slices.Index(r.Compiled.Dimensions, name)
		switch {
		case i < 0:
			return fail("the policy does not count by %q; it counts by %q",
				name, r.Compiled.Dimensions)
		case name == r.PlanBy:
			return fail("PlanBy is %q, and no plan has the name of an address; use Overrides", name)
		case bits < clientaddr.MinBits || bits > clientaddr.MaxBits:
			return fail("%q has prefixes of %d bits; use %d to %d, such as 64",
				name, bits, clientaddr.MinBits, clientaddr.MaxBits)
		}
		if r.addresses == nil {
			r.addresses = make([]int, len(r.Compiled.Dimensions))
		}
		r.addresses[i] = bits
	}
	return nil
}

// addressBits returns the length of the IPv6 prefix that counts as one client in a dimension, 0
// if its values are no addresses.
func (r *Rule) addressBits(dimension int) int {
	if r.addresses == nil {
		return 0
	}
	return r.addresses[dimension]
}

// unify replaces the addresses among the values of a key by their counted form. A value that
// is not an address is an error, or counts as it is written.
func (r *Rule) unify(values []string, asWritten bool) error {
	for i := range values {
		form, err := r.Unify(i, values[i])
		switch {
		case err == nil:
			values[i] = form
		case !asWritten:
			return err
		}
	}
	return nil
}

// AddressError reports a value that is not an address, in a dimension that holds addresses. It does
// not show the value, because logs name no values of keys.
type AddressError struct{ *weir.InputError }

// Unwrap returns the [weir.InputError].
func (e AddressError) Unwrap() error { return e.InputError }

// Unify returns the counted form of a value of a dimension, which has this index. Only
// addresses have a form that differs. The error is an [AddressError].
func (r *Rule) Unify(dimension int, value string) (string, error) {
	bits := r.addressBits(dimension)
	if bits == 0 || value == "" { // an empty value is an error of its own
		return value, nil
	}
	form, ok := clientaddr.Canonical(value, bits)
	if !ok {
		kind, next := clientaddr.Kind(value)
		problem := fmt.Sprintf("the value of %q is not an address%s, "+
			"and policy %q counts by addresses; %s",
			r.Compiled.Dimensions[dimension], kind, r.Name, next)
		return "", AddressError{&weir.InputError{Field: "key", Problem: problem}}
	}
	return form, nil
}
