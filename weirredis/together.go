package weirredis

import (
	"context"
	"time"
)

// alone asks one question in a call of its own.
func (e *Engine) alone(ctx context.Context, q *question) (r reply, sent time.Time, err error) {
	sent = e.now()
	text, err := e.eval(ctx, e.scripts.forOne(q), q.keys(), []string{q.arg})
	if err == nil {
		r, _, err = cutReply(text, q)
	}
	e.learn(q, &r, err)
	return r, sent, err
}

// together asks several questions of one lane in one call, and answers their
// callers.
func (e *Engine) together(ctx context.Context, asks []asked) {
	script, keys, args := e.scripts.compose(asks)
	text, err := e.eval(ctx, script, keys, args)
	for i := range asks {
		a := &asks[i]
		var r reply
		oneErr := err
		if err == nil {
			r, text, oneErr = cutReply(text, &a.question)
			if _, bad := oneErr.(badReply); bad {
				err = oneErr // what stands behind cannot be read either
			}
		}
		e.learn(&a.question, &r, oneErr)
		a.answer(&r, oneErr)
	}
}

// answer tells every caller its share.
func (a *asked) answer(r *reply, err error) {
	for i := range a.callers() {
		c := a.caller(i)
		if c.err = err; err != nil {
			continue
		}
		c.reply = *r
		if a.callers() > 1 {
			c.reply = r.share(&a.question, int64(i))
		}
	}
}

// forOne is the script for one question.
func (s *scripts) forOne(q *question) *Script {
	switch {
	case q.limits() == 1:
		return s.one
	}
	return s.forLimits(q.limits())
}

// compose puts questions of one lane into the words of one call.
func (s *scripts) compose(asks []asked) (script *Script, keys, args []string) {
	first := &asks[0]
	keys = make([]string, 0, len(asks)*first.limits())
	if first.limits() > 1 {
		args = make([]string, 0, len(asks))
		for i := range asks {
			a := &asks[i]
			keys = append(keys, a.several...)
			args = append(args, manyTimes(a.arg, a.callers()))
		}
		return s.forLimits(first.limits()), keys, args
	}
	script = s.batch
	// Most questions of a batch are alike but for their keys: each argument is sent
	// once, and one string of numbers says whose it is.
	numbers := make([]byte, len(asks))
	args = append(args, "")
	known := map[string]byte{}
	last, number := "", byte(0)
	for i := range asks {
		a := &asks[i]
		arg := oneTimes(a.arg, a.callers())
		keys = append(keys, a.all)
		if arg != last {
			var ok bool
			if number, ok = known[arg]; !ok {
				args = append(args, arg)
				number = byte(len(args)) // Lua counts from 1
				known[arg] = number
			}
			last = arg
		}
		numbers[i] = number
	}
	args[0] = string(numbers)
	return script, keys, args
}
