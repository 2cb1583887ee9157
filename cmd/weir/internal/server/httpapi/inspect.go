package httpapi

import (
	"github.com/weirlimit/weir/cmd/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/answer"
)

// inspect answers with the entries, holds and appointments of a key. It decides a peek of one
// unit, so that the answer has the instant at which one more fits. The entries of a key are
// personal data, so the call is for operators.
func (a *API) inspect(s *scratch) error {
	s.N = 1
	s.States = s.states[:len(s.to.Compiled.Limits)]
	o, histories, err := s.to.Inspect(background, &s.Request)
	if err != nil {
		return err
	}
	nameOf := func(id string) string { return reserve.NameOf(s.to, s.lines, s.key, id).String() }
	made := answerOf(&s.Request, &o)
	j := answer.JSON{Text: s.answer}
	j.Object("")
	made.WriteHistories(&j, &o.Applied, histories, nameOf)
	s.endAnswer(&j)
	return nil
}
