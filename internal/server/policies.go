package server

import (
	"encoding/json"
	"net/http"

	"github.com/weirlimit/weir/internal/answer"
)

// policyShown is one policy in the answer to GET /v1/policies.
type policyShown struct {
	Name       string       `json:"name"`
	About      string       `json:"about,omitempty"`
	Mode       string       `json:"mode"`
	Dimensions []string     `json:"dimensions"` // what a key must name
	Limits     []limitShown `json:"limits"`
}

type limitShown struct {
	Name     string   `json:"name"`
	Sentence string   `json:"sentence"`
	Max      int64    `json:"max"`
	Units    string   `json:"units,omitempty"`
	WindowMS int64    `json:"window_ms"` // rounded up
	GapMS    int64    `json:"gap_ms,omitempty"`
	By       []string `json:"by"`
	Cells    int      `json:"cells,omitempty"`
}

// describe is the answer to GET /v1/policies, in the order of the file.
func describe(entries []*entry) []byte {
	all := []policyShown{}
	for _, e := range entries {
		p := policyShown{Name: e.Name, About: e.About, Mode: e.Mode.String(),
			Dimensions: append([]string{}, e.plan.Dimensions()...)}
		for i, l := range e.plan.Policy().Limits {
			shown := limitShown{Name: l.Name, Sentence: e.Sentence(i), Max: l.Max,
				WindowMS: answer.Millis(l.Window), GapMS: answer.Millis(l.Gap),
				By: append([]string{}, l.By...), Cells: l.Cells}
			if i < len(e.Units) {
				shown.Units = e.Units[i]
			}
			p.Limits = append(p.Limits, shown)
		}
		all = append(all, p)
	}
	return marshal(map[string]any{"policies": all})
}

// marshal is v as a line of JSON.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and numbers cannot fail
	}
	return append(b, '\n')
}

func (s *Server) servePolicies(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.serving.Load().list)
}
