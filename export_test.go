package weir

// The kinds of bad input, for errors.Is.
var (
	errUnits   = &InputError{Field: "units"}
	errKey     = &InputError{Field: "key"}
	errInstant = &InputError{Field: "instant"}
	errLimit   = &InputError{Field: "limit"}
	errSpan    = &InputError{Field: "span"}
	errID      = &InputError{Field: "id"}
	errRequest = &InputError{Field: "request"}
)
