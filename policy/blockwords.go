package policy

import (
	"strings"
	"time"

	"github.com/weirlimit/weir/policy/internal/strictyaml"
)

// completeBlocks puts together for how long the limits of a policy block.
func (c *checker) completeBlocks(d *policyBuilder, name *strictyaml.Node) error {
	p := d.policy
	for i, l := range d.limits {
		if l.block == 0 {
			continue
		}
		if p.Blocks == nil {
			p.Blocks = make([]time.Duration, len(d.limits))
		}
		p.Blocks[i] = l.block
	}
	if most := maxName - len(blocksSuffix); p.Blocks != nil && len(p.Name) > most {
		return c.fail(name.Offset, "use at most "+formatNumber(int64(most))+" characters",
			"the name is too long for a policy that blocks: its blocks are remembered under the name with %s behind it", blocksSuffix)
	}
	return nil
}

// blocksApart refuses a policy whose name the blocks of another one have.
func (c *checker) checkBlockNames(f *File, policies *strictyaml.Node) error {
	for name := range policies.Pairs() {
		owner := f.byName[strings.TrimSuffix(name.Text, blocksSuffix)]
		if owner == nil || owner.Name == name.Text || owner.Blocks == nil {
			continue
		}
		return c.fail(name.Offset, "choose another name", "the blocks of policy %s are remembered under this name", clip(owner.Name))
	}
	return nil
}
