package gate

import (
	"strings"
	"testing"
	"time"
)

// night is three in the morning, UTC.
var night = time.Date(2026, 5, 1, 3, 0, 0, 0, time.UTC)

func TestWhen(t *testing.T) {
	t.Parallel()

	const (
		yes   = "holds"
		no    = "does not hold"
		fails = "fails" // matches on ask and deny, not on allow
	)
	tests := map[string]struct{ when, args, want string }{
		"the call itself":                        {`call.server == "k8s" && call.tool == "kubectl" && call.target == "prod"`, `{}`, yes},
		"who asks":                               {`requester.key == "hermes" && requester.agent == "claude" && requester.run == "r" && requester.session == "s" && requester.person == "ann" && requester.attended`, `{}`, yes},
		"the time is the one of the facts":       {`now.getHours() == 3 && now < timestamp("2027-01-01T00:00:00Z")`, `{}`, yes},
		"an argument that is equal":              {`args.ns == "prod"`, `{"ns":"prod"}`, yes},
		"an argument that is not":                {`args.ns == "prod"`, `{"ns":"dev"}`, no},
		"an argument by index":                   {`args["ns"] == "prod"`, `{"ns":"prod"}`, yes},
		"case is not folded":                     {`args.ns == "prod"`, `{"ns":"Prod"}`, no},
		"null is a scalar":                       {`args.ns == "prod"`, `{"ns":null}`, no},
		"an absent argument":                     {`args.ns == "prod"`, `{}`, fails},
		"an absent argument, tested first":       {`has(args.ns) && args.ns == "prod"`, `{}`, no},
		"an integer is a double":                 {`args.n == 1`, `{"n":1.0}`, yes},
		"a double is an integer":                 {`args.n == 1.0`, `{"n":1}`, yes},
		"an exponent is a number":                {`args.n >= 1000`, `{"n":1e3}`, yes},
		"orders compare across kinds of numbers": {`args.n > 1`, `{"n":1.5}`, yes},
		"a size is ordered with a decimal":       {`size(args.l) > 1.5`, `{"l":[1,2]}`, yes},
		"membership compares across them too":    {`args.n in [1, 2]`, `{"n":2.0}`, yes},
		"large integers stay exact":              {`args.n == 9007199254740992`, `{"n":9007199254740993}`, no},
		"a number beyond every kind":             {`args.n > 1`, `{"n":1e400}`, fails},
		"a number as text is ordered with none":  {`args.n > 10`, `{"n":"11"}`, fails},

		"a list instead of a scalar":         {`args.ns == "prod"`, `{"ns":["prod"]}`, fails},
		"a map instead of a scalar":          {`args.ns == "prod"`, `{"ns":{"prod":true}}`, fails},
		"unequal to a list":                  {`args.ns != "prod"`, `{"ns":["prod"]}`, fails},
		"not equal to a list":                {`!(args.ns == "prod")`, `{"ns":["prod"]}`, fails},
		"the operands the other way round":   {`"prod" == args.ns`, `{"ns":["prod"]}`, fails},
		"two lists of the call":              {`args.a == args.b`, `{"a":[1],"b":[1]}`, fails},
		"a list in a literal list":           {`args.ns in ["prod", "stage"]`, `{"ns":["prod"]}`, fails},
		"a scalar in a literal list":         {`args.ns in ["prod", "stage"]`, `{"ns":"prod"}`, yes},
		"a scalar in a literal map":          {`args.ns in {"prod": 1}`, `{"ns":"prod"}`, yes},
		"a list in a literal map":            {`args.ns in {"prod": 1}`, `{"ns":["prod"]}`, fails},
		"a member of a list of the call":     {`"prod" in args.ns`, `{"ns":["dev","prod"]}`, yes},
		"no member of it":                    {`"prod" in args.ns`, `{"ns":["dev"]}`, no},
		"a list within the list of the call": {`"prod" in args.ns`, `{"ns":[["prod"]]}`, fails},
		"text where a list should be":        {`"prod" in args.ns`, `{"ns":"prod"}`, fails},
		"a list under a map's index":         {`{"prod": true}[args.ns]`, `{"ns":["prod"]}`, fails},
		"an order with a list":               {`args.n < 5`, `{"n":[1]}`, fails},
		"an order with a truth":              {`args.n < 5`, `{"n":true}`, fails},
		"a list through dyn":                 {`dyn(args.ns) == "prod"`, `{"ns":["prod"]}`, fails},
		"a list through text":                {`string(args.ns) == "prod"`, `{"ns":["prod"]}`, fails},
		"a list through a ternary":           {`(true ? args.ns : "x") == "prod"`, `{"ns":["prod"]}`, fails},
		"the sum of lists":                   {`args.a + args.b == "ab"`, `{"a":["a"],"b":["b"]}`, fails},
		"a comparison inside a comparison":   {`(args.ns == "prod") == false`, `{"ns":["prod"]}`, fails},
		"a size is a scalar":                 {`size(args.ns) > 1`, `{"ns":["a","b"]}`, yes},
		"a field of a list":                  {`args.m.env == "prod"`, `{"m":[{"env":"prod"}]}`, fails},
		"a field of text":                    {`args.m.env == "prod"`, `{"m":"env"}`, fails},

		"text functions on text":          {`args.cmd.startsWith("rm ")`, `{"cmd":"rm -rf /"}`, yes},
		"text functions on a list":        {`args.cmd.startsWith("rm ")`, `{"cmd":["rm ","-rf"]}`, fails},
		"contains on a list":              {`args.cmd.contains("rm")`, `{"cmd":["rm"]}`, fails},
		"a pattern on a list":             {`args.cmd.matches("rm.*")`, `{"cmd":["rm"]}`, fails},
		"a pattern that does not compile": {`"x".matches(args.p)`, `{"p":"("}`, fails},

		"has of an absent field":       {`has(args.m.env)`, `{"m":{}}`, no},
		"has of a present field":       {`has(args.m.env)`, `{"m":{"env":null}}`, yes},
		"has under an absent field":    {`has(args.m.env)`, `{}`, fails},
		"has of a field of a list":     {`has(args.m.env)`, `{"m":[{"env":1}]}`, fails},
		"has of a field of text":       {`has(args.m.env)`, `{"m":"env"}`, fails},
		"has of a field of null":       {`has(args.m.env)`, `{"m":null}`, fails},
		"not has of a field of a list": {`!has(args.m.env)`, `{"m":[]}`, fails},

		"or after a truth does not look":         {`args.a == 1 || args.b == 1`, `{"a":1,"b":[1]}`, yes},
		"or keeps the error before a truth":      {`args.a == 1 || args.b == 1`, `{"a":[1],"b":1}`, fails},
		"or keeps the error after a falsehood":   {`args.a == 1 || args.b == 1`, `{"a":2,"b":[1]}`, fails},
		"and after a falsehood does not look":    {`args.a == 1 && args.b == 1`, `{"a":2,"b":[1]}`, no},
		"and keeps the error before a falsehood": {`args.a == 1 && args.b == 1`, `{"a":[1],"b":2}`, fails},
		"and keeps the error after a truth":      {`args.a == 1 && args.b == 1`, `{"a":1,"b":[1]}`, fails},
		"a long and keeps it as well":            {`args.a == 1 && args.b == 1 && args.c == 1 && args.d == 1`, `{"a":1,"b":[1],"c":2,"d":2}`, fails},
		"not keeps an error":                     {`!(args.a == 1 && args.b == 1)`, `{"a":[1],"b":2}`, fails},
		"a ternary keeps the error it asks":      {`args.a == 1 ? false : false`, `{"a":[1]}`, fails},
		"a ternary looks at one side":            {`args.a == 1 ? true : args.b == 1`, `{"a":1,"b":[1]}`, yes},
		"a truth that is none":                   {`args.a && true`, `{"a":"yes"}`, fails},
		"a truth that is none, on the right":     {`true && args.a`, `{"a":"yes"}`, fails},
		"a truth that is none, in the middle":    {`(true && args.a) || true`, `{"a":"yes"}`, fails},

		"exists finds":                          {`args.l.exists(x, x == "prod")`, `{"l":["dev","prod"]}`, yes},
		"exists finds nothing":                  {`args.l.exists(x, x == "prod")`, `{"l":["dev"]}`, no},
		"exists over a list in the list":        {`args.l.exists(x, x == "prod")`, `{"l":[["prod"]]}`, fails},
		"exists keeps an error before a find":   {`args.l.exists(x, x == "prod")`, `{"l":[["x"],"prod"]}`, fails},
		"exists stops at a find":                {`args.l.exists(x, x == "prod")`, `{"l":["prod",["x"]]}`, yes},
		"exists over what is no list":           {`args.l.exists(x, x == "prod")`, `{"l":"prod"}`, fails},
		"exists over a map looks at keys":       {`args.l.exists(x, x == "prod")`, `{"l":{"prod":1}}`, yes},
		"exists with a truth that is none":      {`args.l.exists(x, x)`, `{"l":["prod"]}`, fails},
		"not exists keeps an error":             {`!args.l.exists(x, x == "prod")`, `{"l":[["prod"]]}`, fails},
		"all of them":                           {`args.l.all(x, x == "dev")`, `{"l":["dev","dev"]}`, yes},
		"not all of them":                       {`args.l.all(x, x == "dev")`, `{"l":["dev","prod"]}`, no},
		"all keeps an error before a falsehood": {`args.l.all(x, x == "dev")`, `{"l":[["dev"],"prod"]}`, fails},
		"all of nothing":                        {`args.l.all(x, x == "dev")`, `{"l":[]}`, yes},
		"exactly one":                           {`args.l.exists_one(x, x == "prod")`, `{"l":["prod","dev"]}`, yes},
		"exactly one keeps an error":            {`args.l.exists_one(x, x == "prod")`, `{"l":["prod",["prod"]]}`, fails},
		"a filter keeps an error":               {`size(args.l.filter(x, x == "prod")) == 0`, `{"l":[["prod"]]}`, fails},
		"a map of comparisons keeps an error":   {`size(args.l.map(x, x == "prod")) == 1`, `{"l":[["prod"]]}`, fails},

		"costs too much":                    {`args.l.all(a, args.l.all(b, args.l.all(c, a + b + c > 0)))`, `{"l":[` + strings.Repeat("1,", 99) + `1]}`, fails},
		"arguments that are no JSON":        {`args.ns == "prod"`, `{"ns":`, fails},
		"arguments that are a list":         {`size(args) == 0`, `[]`, fails},
		"arguments with a key twice":        {`args.ns == "prod"`, `{"ns":"prod","ns":"dev"}`, fails},
		"a key twice, spelt with an escape": {`args.ns == "prod"`, `{"ns":"prod","n\u0073":"dev"}`, fails},
		"a lone surrogate":                  {`args.ns == "prod"`, `{"ns":"dev","x":"\ud800"}`, fails},
		"broken text":                       {`args.ns == "prod"`, "{\"ns\":\"dev\xff\"}", fails},
		"nested too deep":                   {`args.ns == "prod"`, `{"ns":"dev","x":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`, fails},
		"broken arguments nobody looks at":  {`call.tool == "other"`, `{"ns":`, no},
		"no arguments":                      {`size(args) == 0`, ``, yes},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			c, err := compileWhen(tt.when)
			if err != nil {
				t.Fatal(err)
			}
			f := facts(Call{Server: "k8s", Tool: "kubectl", Target: "prod", Args: []byte(tt.args)})
			got := no
			holds, err := c.holds(f)
			if err != nil {
				got = fails
			} else if holds {
				got = yes
			}
			if got != tt.want {
				t.Errorf("%s on %s: %s (%v), want it %s", tt.when, tt.args, got, err, tt.want)
			}
			for action, want := range map[Action]bool{
				ActionAsk: got != no, ActionDeny: got != no, ActionAllow: got == yes,
			} {
				r := &Rule{Action: action, when: c}
				if r.matches(f) != want {
					t.Errorf("a rule that says %s matches: %t, want %t", action, !want, want)
				}
			}
		})
	}
}

func facts(c Call) *Facts {
	return &Facts{
		Call:      &c,
		Requester: &Requester{Key: "hermes", Agent: "claude", Run: "r", Session: "s", Person: "ann", Attended: true},
		Now:       night,
	}
}

func TestWhenRefuses(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ when, hint string }{
		"what does not parse":             {`args.ns ==`, "column"},
		"a name that is not there":        {`arguments.ns == "x"`, "undeclared reference"},
		"a field the call has not":        {`call.name == "x"`, "undeclared reference"},
		"a number":                        {`size(args)`, "want a bool"},
		"an argument alone":               {`args.force`, "args.force == true"},
		"kinds that never compare":        {`call.tool == 1`, "no matching overload"},
		"a comparison with a list":        {`args.l == ["prod"]`, "compare its elements"},
		"a comparison with a map":         {`args != {}`, "compare its elements"},
		"a list to look for":              {`["a"] in args.l`, "look for its elements"},
		"the functions of the rewrite":    {`@scalar(args.x) == 1`, "token recognition"},
		"more than one error, all listed": {`foo == 1 && bar == 2`, "'bar'"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := compileWhen(tt.when)
			if err == nil || !strings.Contains(err.Error(), tt.hint) || strings.Contains(err.Error(), "\n") {
				t.Errorf("compileWhen(%s) = %v, want one line with %q", tt.when, err, tt.hint)
			}
		})
	}
}

func TestWhenWarnsOfArgumentsThatMayBeAbsent(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ when, want string }{
		"not tested":            {`args.ns == "prod"`, "args.ns"},
		"not tested, by index":  {`args["ns"] == "prod"`, "args.ns"},
		"tested":                {`has(args.ns) && args.ns == "prod"`, ""},
		"tested one level only": {`has(args.m) && args.m.env == "prod"`, "args.m.env"},
		"tested below only":     {`has(args.m.env) && args.m.env == "prod"`, "args.m"},
		"tested on all levels":  {`has(args.m) && has(args.m.env) && args.m.env == "prod"`, ""},
		"no arguments":          {`call.target == "prod"`, ""},
		"inside a macro":        {`args.l.exists(x, x == "prod")`, "args.l"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			c, err := compileWhen(tt.when)
			if err != nil || c.warning != tt.want {
				t.Errorf("%s warns of %q (%v), want %q", tt.when, c.warning, err, tt.want)
			}
		})
	}
}

// FuzzWhen feeds conditions and arguments; nothing may panic, and the strict
// reading may only ever turn an answer of CEL into an error.
func FuzzWhen(f *testing.F) {
	f.Add(`args.ns == "prod" && !(args.n in [1, 2.0]) || has(args.m.x)`, `{"ns":["prod"],"n":1.0,"m":{"x":null}}`)
	f.Add(`args.l.exists(x, x == "a") ? args.l.all(y, y != "b") : now < now`, `{"l":["a",["b"]]}`)
	f.Add(`args["a"].contains(call.tool) || size(args.l.filter(z, z > 1)) == 0`, `{"a":"kubectl","l":[1,2,3]}`)
	f.Fuzz(func(t *testing.T, when, args string) {
		if len(when) > 200 || len(args) > 500 {
			return
		}
		c, err := compileWhen(when)
		if err != nil {
			return
		}
		fact := facts(Call{Tool: "kubectl", Args: []byte(args)})
		strict, err := c.holds(fact)
		if err != nil {
			return
		}
		env, _ := whenEnv()
		checked, _ := env.Compile(when)
		program, err := env.Program(checked)
		if err != nil {
			t.Fatal(err)
		}
		plain, _, err := program.Eval(fact.variables())
		if err != nil || plain.Value() != strict {
			t.Fatalf("%s on %s: strict %t, CEL %v %v", when, args, strict, plain, err)
		}
	})
}
