package policy

import (
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/yamlnode"
)

// blocksSuffix follows a policy's name in the name of its blocks. No other policy on the
// same store may have that name.
const blocksSuffix = ".block"

// maxName is the longest name, in bytes.
const maxName = 64

// BlockOf returns the length of the block that a denial by limit i begins, 0 if it begins
// none. Plans and overrides do not change it.
func (p *Definition) BlockOf(i int) time.Duration {
	if i < len(p.Blocks) {
		return p.Blocks[i]
	}
	return 0
}

// BlocksName returns the name under which a store keeps the blocks of the policy. They
// are histories of their own, beside those of its limits.
func (p *Definition) BlocksName() string { return p.Name + blocksSuffix }

// completeBlocks collects the blocks of a policy's limits.
func (c *checker) completeBlocks(d *policyBuilder, name *yamlnode.Node) bool {
	p := d.policy
	p.Blocks = eachOf(d.limits, func(l *limitBuilder) time.Duration { return l.block })
	if most := maxName - len(blocksSuffix); p.Blocks != nil && len(p.Name) > most {
		return c.fail(name.Offset, "use at most "+formatNumber(int64(most))+" characters",
			"the name is too long for a policy that blocks: its blocks are stored under the name with %s appended", blocksSuffix)
	}
	return true
}

// eachOf returns a value of each limit, or nil if all are zero.
func eachOf[T comparable](limits []*limitBuilder, of func(*limitBuilder) T) []T {
	all, zero := make([]T, len(limits)), *new(T)
	for i, l := range limits {
		all[i] = of(l)
	}
	if !slices.ContainsFunc(all, func(v T) bool { return v != zero }) {
		return nil
	}
	return all
}

// checkDerivedNames rejects a policy with the name of another policy's blocks.
func (c *checker) checkDerivedNames(f *File, policies *yamlnode.Node) bool {
	ok := true
	for name := range policies.Pairs() {
		if base, cut := strings.CutSuffix(name.Text, blocksSuffix); cut {
			if owner := f.Definition(base); owner != nil && owner.Blocks != nil {
				ok = c.fail(name.Offset, "choose another name", "the blocks of policy %s are stored under this name", clip(owner.Name))
			}
		}
	}
	return ok
}
