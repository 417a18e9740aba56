package gate

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// maxWhenCost bounds one evaluation, in the units of CEL.
const maxWhenCost = 100_000

// condition is a compiled `when`. It is CEL with two differences that close
// ways around a rule; both are rewrites of the checked expression:
//
//   - && and || go left to right and stop at an error. CEL's own would drop an
//     error whenever the other side settles the result, so that what an agent
//     sends on one side could hide what it sends on the other.
//   - == != and in take only scalars. CEL finds ["prod"] simply unequal to
//     "prod", while a lenient tool may take it for the same.
//
// What errors is decided by the caller, who knows the rule's action.
type condition struct {
	program  cel.Program
	needArgs bool
	paths    [][]string // of the arguments it looks at; "*" is any index
	warning  string
}

var whenEnv = sync.OnceValues(func() (*cel.Env, error) {
	anything := cel.TypeParamType("T")
	return cel.NewEnv(
		cel.Variable("call.server", cel.StringType),
		cel.Variable("call.tool", cel.StringType),
		cel.Variable("call.target", cel.StringType),
		cel.Variable("args", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("requester.key", cel.StringType),
		cel.Variable("requester.agent", cel.StringType),
		cel.Variable("requester.run", cel.StringType),
		cel.Variable("requester.session", cel.StringType),
		cel.Variable("requester.person", cel.StringType),
		cel.Variable("requester.attended", cel.BoolType),
		cel.Variable("now", cel.TimestampType),
		cel.Function(fnScalar, cel.Overload(fnScalar, []*cel.Type{anything}, anything, cel.UnaryBinding(scalar))),
		cel.Function(fnScalars, cel.Overload(fnScalars, []*cel.Type{anything}, anything, cel.UnaryBinding(scalars))),
		cel.CrossTypeNumericComparisons(true),
		cel.EnableErrorOnBadPresenceTest(true), // has(args.a.b) where args.a is a list
		cel.DefaultUTCTimeZone(true),
	)
})

func compileWhen(text string) (*condition, error) {
	env, err := whenEnv()
	if err != nil {
		return nil, err
	}
	checked, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, errors.New(celText(issues))
	}
	if !checked.OutputType().IsExactType(cel.BoolType) {
		return nil, fmt.Errorf("is a %s, want a bool; compare it, as in args.force == true", checked.OutputType())
	}
	if err := comparesScalars(checked.NativeRep()); err != nil {
		return nil, err
	}
	c := &condition{}
	c.look(checked.NativeRep().Expr())

	strict, _ := env.Parse(text) // afresh: the rewrite needs a check of its own
	rewrite(strict.NativeRep())
	strict, issues = env.Check(strict)
	if issues.Err() != nil {
		return nil, errors.New(celText(issues))
	}
	c.program, err = env.Program(strict, cel.CostLimit(maxWhenCost))
	return c, err
}

// celText puts the errors of a condition on one line.
func celText(issues *cel.Issues) string {
	texts := make([]string, len(issues.Errors()))
	for i, e := range issues.Errors() {
		texts[i] = fmt.Sprintf("%s (line %d, column %d)", e.Message, e.Location.Line(), e.Location.Column()+1)
	}
	return strings.Join(texts, "; ")
}

// holds evaluates the condition.
func (c *condition) holds(f *Facts) (bool, error) {
	if c.needArgs {
		if err := f.parse(); err != nil {
			return false, err
		}
	}
	v, _, err := c.program.Eval(f.variables())
	if err != nil {
		return false, err
	}
	b, ok := v.Value().(bool)
	if !ok {
		return false, fmt.Errorf("condition is a %s", v.Type())
	}
	return b, nil
}

// variables are the facts under the names of whenEnv.
func (f *Facts) variables() map[string]any {
	c, r := f.Call, f.Requester
	return map[string]any{
		"call.server": c.Server, "call.tool": c.Tool, "call.target": c.Target, "args": f.args,
		"requester.key": r.Key, "requester.agent": r.Agent, "requester.run": r.Run, "requester.session": r.Session,
		"requester.person": r.Person, "requester.attended": r.Attended, "now": f.Now,
	}
}

// The functions of the rewrite; no condition can spell an @.
const (
	fnScalar  = "@scalar"
	fnScalars = "@scalars"
)

// scalar returns v, unless it is a list or a map.
func scalar(v ref.Val) ref.Val {
	switch v.(type) {
	case traits.Lister, traits.Mapper:
		return types.NewErr("compares a %s", v.Type().TypeName())
	}
	return v
}

// scalars returns v, unless it is a list with something else than scalars in it.
func scalars(v ref.Val) ref.Val {
	list, ok := v.(traits.Lister)
	if !ok {
		return v
	}
	for it := list.Iterator(); it.HasNext() == types.True; {
		if err := scalar(it.Next()); types.IsError(err) {
			return err
		}
	}
	return v
}

// rewrite makes the parsed expression strict. It runs before the type check,
// and on the && and || inside exists() and all() too.
func rewrite(a *ast.AST) {
	id, fac := ast.MaxID(a), ast.NewExprFactory()
	next := func() int64 { id++; return id }
	wrap := func(fn string, e ast.Expr) ast.Expr { return fac.NewCall(next(), fn, e) }
	ast.PostOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind {
			return
		}
		args := e.AsCall().Args()
		switch fn := e.AsCall().FunctionName(); fn {
		case operators.LogicalOr:
			e.SetKindCase(fac.NewCall(e.ID(), operators.Conditional, args[0], fac.NewLiteral(next(), types.True), args[1]))
		case operators.LogicalAnd:
			e.SetKindCase(fac.NewCall(e.ID(), operators.Conditional, args[0], args[1], fac.NewLiteral(next(), types.False)))
		case operators.Equals, operators.NotEquals:
			e.SetKindCase(fac.NewCall(e.ID(), fn, wrap(fnScalar, args[0]), wrap(fnScalar, args[1])))
		case operators.In:
			e.SetKindCase(fac.NewCall(e.ID(), fn, wrap(fnScalar, args[0]), wrap(fnScalars, args[1])))
		}
	}))
}

// comparesScalars refuses a comparison that could never be one of scalars.
func comparesScalars(a *ast.AST) (err error) {
	aggregate := func(e ast.Expr) bool {
		kind := a.GetType(e.ID()).Kind()
		return kind == types.ListKind || kind == types.MapKind
	}
	ast.PostOrderVisit(a.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind {
			return
		}
		args := e.AsCall().Args()
		switch e.AsCall().FunctionName() {
		case operators.Equals, operators.NotEquals:
			if aggregate(args[0]) || aggregate(args[1]) {
				err = errors.New("compares a list or a map; compare its elements")
			}
		case operators.In:
			if aggregate(args[0]) {
				err = errors.New("looks for a list or a map; look for its elements")
			}
		}
	}))
	return err
}

// look notes which arguments the condition looks at, and the first that may be
// absent.
func (c *condition) look(e ast.Expr) {
	var uses [][]string
	inner, guarded := map[int64]bool{}, map[string]bool{}
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		path, operand := argPath(e)
		if path == nil {
			return
		}
		c.needArgs = true
		if operand != nil {
			inner[operand.ID()] = true
		}
		if !inner[e.ID()] {
			c.paths = append(c.paths, path)
		}
		if e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly() {
			guarded[strings.Join(path, ".")] = true
		} else if path[len(path)-1] != "*" && len(path) > 1 {
			uses = append(uses, path)
		}
	}))
	for _, path := range uses {
		if p := strings.Join(path, "."); !guarded[p] && c.warning == "" {
			c.warning = p
		}
	}
}

// argPath returns the path of arguments that e stands for, and the expression
// it selects from; nil if e is something else.
func argPath(e ast.Expr) (path []string, operand ast.Expr) {
	step := "*"
	switch e.Kind() {
	case ast.IdentKind:
		if e.AsIdent() == "args" {
			return []string{"args"}, nil
		}
		return nil, nil
	case ast.SelectKind:
		operand, step = e.AsSelect().Operand(), e.AsSelect().FieldName()
	case ast.CallKind:
		if e.AsCall().FunctionName() != operators.Index {
			return nil, nil
		}
		operand = e.AsCall().Args()[0]
		if key := e.AsCall().Args()[1]; key.Kind() == ast.LiteralKind {
			if s, ok := key.AsLiteral().(types.String); ok {
				step = string(s)
			}
		}
	default:
		return nil, nil
	}
	if path, _ = argPath(operand); path == nil {
		return nil, nil
	}
	return append(path, step), operand
}
