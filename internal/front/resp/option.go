package resp

import (
	"strconv"
	"strings"

	"github.com/weirlimit/weir"
)

// options are a set of what a command takes behind all else, each as a word and a
// value, in any order.
type options uint8

const (
	takesID  options = 1 << iota // ID id: of an operation that may be made again
	takesTTL                     // TTL n: of a reservation, in milliseconds
)

// optionNamed returns the option of that name in whatever case, or 0.
func optionNamed(word string) options {
	switch {
	case strings.EqualFold(word, "ID"):
		return takesID
	case strings.EqualFold(word, "TTL"):
		return takesTTL
	}
	return 0
}

// cutLastOption parts the last option, if it is one of takes, from the arguments before
// it. Its name has no =, so no dimension is taken for one.
func cutLastOption(args []string, takes options) (rest []string, name options, value string) {
	n := len(args) - 2
	if n < 0 {
		return args, 0, ""
	}
	if name = optionNamed(args[n]) & takes; name == 0 {
		return args, 0, ""
	}
	return args[:n], name, args[n+1]
}

// withoutOptions are the arguments before the options, each of which can be there once.
func withoutOptions(args []string, takes options) []string {
	for {
		rest, name, _ := cutLastOption(args, takes)
		if name == 0 {
			return args
		}
		args, takes = rest, takes&^name
	}
}

// cutOptions reads the options and returns the arguments before them.
func (a *asked) cutOptions(args []string, takes options) ([]string, error) {
	for {
		rest, name, value := cutLastOption(args, takes)
		switch name {
		case takesID:
			if a.id = value; value == "" || len(value) > weir.MaxIDBytes {
				return nil, inputError("an ID has 1 to " + strconv.Itoa(weir.MaxIDBytes) + " bytes; leave ID out for an operation without one")
			}
		case takesTTL:
			n, err := number(value, "TTL, in milliseconds,")
			if a.ttl = n; err != nil {
				return nil, err
			}
			if n == 0 {
				return nil, inputError("TTL must be 1 or more; leave it out for as long as can be")
			}
		default:
			return args, nil
		}
		args, takes = rest, takes&^name
	}
}
