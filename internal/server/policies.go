package server

import (
	"encoding/json"
	"net/http"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/policy"
)

// policyShown is one policy in the answer to GET /v1/policies.
type policyShown struct {
	Name       string       `json:"name"`
	About      string       `json:"about,omitempty"`
	Mode       string       `json:"mode"`
	Dimensions []string     `json:"dimensions"` // what a key must name
	Limits     []limitShown `json:"limits"`

	Shadow    bool        `json:"shadow,omitempty"`
	Count     string      `json:"count,omitempty"`   // reported, if only that is charged
	PlanBy    string      `json:"plan_by,omitempty"` // what a key may name besides, to choose a plan
	Plans     []planShown `json:"plans,omitempty"`
	Overrides int         `json:"overrides,omitempty"` // how many; whom they are for is not shown
}

// planShown is a plan with the limits in which it differs.
type planShown struct {
	Name   string       `json:"name"`
	Limits []limitShown `json:"limits"`
}

type limitShown struct {
	Name     string   `json:"name"`
	Sentence string   `json:"sentence"`
	Max      int64    `json:"max"`
	Units    string   `json:"units,omitempty"`
	WindowMS int64    `json:"window_ms"` // rounded up
	GapMS    int64    `json:"gap_ms,omitempty"`
	BlockMS  int64    `json:"block_ms,omitempty"` // how long a refusal blocks the key
	By       []string `json:"by"`
	Kind     string   `json:"kind,omitempty"` // fixed or fixed-from-first-hit, "" of a rolling limit
	Cells    int      `json:"cells,omitempty"`
	Cost     int64    `json:"cost,omitempty"` // what an attempt takes, if not as much as it asks for
}

// describe is the answer to GET /v1/policies, in the order of the file.
func describe(entries []*entry) []byte {
	all := []policyShown{}
	for _, e := range entries {
		p := policyShown{Name: e.Name, About: e.About, Mode: e.Mode.String(),
			Dimensions: append([]string{}, e.plan.Dimensions()...),
			Shadow:     e.Shadow, PlanBy: e.TierBy, Overrides: len(e.Overrides)}
		if e.Reports() {
			p.Count = e.ChargeOn.String()
		}
		for i := range e.Limits {
			p.Limits = append(p.Limits, showLimit(e.Policy, i))
		}
		for _, plan := range e.Tiers {
			shown, v := planShown{Name: plan.Name}, e.With(plan.Changes)
			for _, c := range plan.Changes {
				shown.Limits = append(shown.Limits, showLimit(v, c.Limit))
			}
			p.Plans = append(p.Plans, shown)
		}
		all = append(all, p)
	}
	return marshal(map[string]any{"policies": all})
}

// showLimit is limit i of the policy.
func showLimit(p *policy.Policy, i int) limitShown {
	l := &p.Limits[i]
	shown := limitShown{Name: l.Name, Sentence: p.Sentence(i), Max: l.Max,
		WindowMS: answer.Millis(l.Window), GapMS: answer.Millis(l.MinInterval), BlockMS: answer.Millis(p.BlockOf(i)),
		By: append([]string{}, l.By...), Cells: l.Cells, Cost: l.Cost}
	if l.Kind != weir.Rolling {
		shown.Kind = policy.KindWord(l.Kind)
	}
	if i < len(p.Units) {
		shown.Units = p.Units[i]
	}
	return shown
}

// marshal is v as a line of JSON.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and numbers cannot fail
	}
	return append(answer.Printable(b), '\n')
}

func (s *Server) servePolicies(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.serving.Load().list)
}
