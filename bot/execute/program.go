package execute

import (
	"context"
	"slices"
)

// Program runs calls with a program whose arguments are what they are: for workers,
// whose operator typed them. It gets the call as Command's does, and of Env what it
// is given.
type Program struct {
	Argv []string
	Env  []string
	Dir  string // empty: where this process is
}

// Prepare implements Executor.
func (p *Program) Prepare(_ context.Context, j *Job) (Dispatch, error) {
	env := append(slices.Clip(p.Env), about(j)...)
	env = append(env, ownPrefix+"SESSION_ID="+j.Requester.Session, ownPrefix+"RUN="+j.Requester.Run)
	return &process{argv: p.Argv, dir: p.Dir, env: env, in: j.Call.RawArgs(), most: maxOutput}, nil
}
