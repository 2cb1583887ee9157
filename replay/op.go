package replay

// Op is what a line of a trace asks for.
type Op uint8

const (
	Check  Op = iota // an attempt: decide, and record what is granted (R6)
	Peek             // answer as an attempt would be answered, change nothing (R4)
	Record           // add units without asking (R10)
	Refund           // take units of an earlier grant back (R10)
	Reset            // forget the key's histories of the policy (R10)
	Count            // count the units of one limit over a span (R11)
)

var opNames = [...]string{"check", "peek", "record", "refund", "reset", "count"}

// String returns the op as traces write it.
func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return "unknown"
}

// parseOp returns the op that a trace writes as name.
func parseOp(name []byte) (Op, bool) {
	for o, s := range opNames {
		if string(name) == s {
			return Op(o), true
		}
	}
	return 0, false
}
