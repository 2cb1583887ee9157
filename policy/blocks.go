package policy

import "time"

// blocksSuffix makes the name that a policy's blocks are remembered under of the
// policy's own. No other policy on the same store may have that name.
const blocksSuffix = ".block"

// mostName is the longest name, in bytes.
const maxName = 64

// BlockOf is for how long a refusal by limit i blocks the limit's key, 0 if it does
// not. Plans and overrides leave it as it is.
func (p *Policy) BlockOf(i int) time.Duration {
	if i < len(p.Blocks) {
		return p.Blocks[i]
	}
	return 0
}

// BlocksName is the name that the blocks of the policy are remembered under in a
// store: they are histories of their own, beside those of its limits.
func (p *Policy) BlocksName() string { return p.Name + blocksSuffix }
