package weir

import "context"

type memoryBinding struct{}

// Memory is a placeholder while the engine is written.
type Memory struct{}

// MemoryOption adjusts a memory engine.
type MemoryOption func(*Memory)

// NewMemory returns an empty memory engine.
func NewMemory(opts ...MemoryOption) *Memory { return &Memory{} }

func (m *Memory) Decide(ctx context.Context, p *Plan, k Key, a Ask) (Decision, error) {
	panic("under construction")
}
func (m *Memory) Refund(ctx context.Context, p *Plan, k Key, at, n, now int64) (int64, error) {
	panic("under construction")
}
func (m *Memory) Count(ctx context.Context, p *Plan, k Key, i int, last, now int64) (int64, error) {
	panic("under construction")
}
func (m *Memory) Reset(ctx context.Context, p *Plan, k Key) error { panic("under construction") }
