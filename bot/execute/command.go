package execute

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// CommandConfig is a `command:` section.
type CommandConfig struct {
	Argv      []string          `yaml:"argv"`       // the program by its whole path, then arguments; {…} is filled in
	Dir       string            `yaml:"dir"`        // where it runs; empty is /
	Env       []string          `yaml:"env"`        // names of variables that it gets from this process
	SetEnv    map[string]string `yaml:"set_env"`    // variables that it gets besides
	MaxOutput int               `yaml:"max_output"` // bytes of output that are kept; 0 is as many as can be, 63 KiB
}

// Command runs calls with a program of this machine, without a shell: what the
// agent said is an argument or on standard input, and never read as anything else.
//
// Exit code 0 is executed, any other failed. One that was killed, by the time-out or
// by anybody, may have taken effect. With it ends whatever it has started and left
// in its process group.
type Command struct {
	argv    []argument
	dir     string
	env     []string
	most    int // bytes of output
	program string
}

// NewCommand makes a Command. Its error reports all that is wrong, each with its key.
func NewCommand(c CommandConfig) (*Command, error) {
	argv, errArgv := parseArgv(c.Argv)
	env, errEnv := environment(c.Env, c.SetEnv)
	if err := errors.Join(errArgv, errEnv, checkDir(c.Dir), checkMost(c.MaxOutput)); err != nil {
		return nil, err
	}
	cmd := &Command{argv: argv, dir: c.Dir, env: env, most: c.MaxOutput, program: c.Argv[0]}
	if cmd.dir == "" {
		cmd.dir = "/"
	}
	if cmd.most == 0 {
		cmd.most = maxOutput
	}
	return cmd, nil
}

// Prepare implements Executor: it fills in the arguments, and looks at the program
// again.
func (c *Command) Prepare(_ context.Context, j *Job) (Dispatch, error) {
	argv, err := fill(c.argv, j)
	if err != nil {
		return nil, err
	}
	if err := checkProgram(c.program); err != nil {
		return nil, fmt.Errorf("execute.Command: %w", err)
	}
	return &process{argv: argv, dir: c.dir, env: append(slices.Clip(c.env), about(j)...), in: j.Call.RawArgs(), most: c.most}, nil
}

// about tells a program of the call, in its environment.
func about(j *Job) []string {
	return []string{
		ownPrefix + "ID=" + string(j.ID),
		ownPrefix + "ATTEMPT=" + j.Attempt,
		ownPrefix + "DIGEST=" + j.Digest.String(),
		ownPrefix + "SERVER=" + j.Call.Server,
		ownPrefix + "TOOL=" + j.Call.Tool,
		ownPrefix + "TARGET=" + j.Call.Target,
	}
}

// maxOutput leaves room to say how much was not kept.
const maxOutput = 63 << 10

const (
	ownPrefix   = "APPROVALBOT_"
	defaultPath = "PATH=/usr/local/bin:/usr/bin:/bin"
)

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// environment is what a program gets: nothing of this process but what is named.
func environment(names []string, set map[string]string) (env []string, err error) {
	env = []string{defaultPath}
	check := func(key, name string) {
		if !variable.MatchString(name) || strings.HasPrefix(name, ownPrefix) {
			err = errors.Join(err, fmt.Errorf("%s: %q: want the name of a variable, which does not begin with %s", key, name, ownPrefix))
		}
	}
	for i, name := range names {
		check(fmt.Sprintf("env[%d]", i), name)
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	for name, value := range set {
		check("set_env."+name, name)
		if strings.ContainsRune(value, 0) {
			err = errors.Join(err, fmt.Errorf("set_env.%s: no variable can hold a NUL", name))
		}
		env = append(env, name+"="+value)
	}
	return env, err
}

func checkDir(dir string) error {
	if dir == "" {
		return nil
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() || !filepath.IsAbs(dir) {
		return fmt.Errorf("dir: %q: want the whole path of a folder that exists", dir)
	}
	return nil
}

func checkMost(n int) error {
	if n < 0 || n > maxOutput {
		return fmt.Errorf("max_output: %d: want at most %d bytes", n, maxOutput)
	}
	return nil
}

const (
	othersWrite fs.FileMode = 0o022 // group and everybody
	anybody     fs.FileMode = 0o002
)

// checkProgram reports why a program is not one to trust: whoever can change it
// decides what an approval runs.
func checkProgram(path string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return fmt.Errorf("%q: want the whole path of the program, like /usr/local/bin/deploy", path)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(real)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no file", path)
	case info.Mode().Perm()&othersWrite != 0:
		return fmt.Errorf("%s can be changed by others; chmod go-w it", real)
	}
	if _, err := exec.LookPath(real); err != nil {
		return fmt.Errorf("%s cannot be executed; chmod +x it", path)
	}
	return errors.Join(checkPlace(path), checkPlace(real))
}

// checkPlace reports whether anybody could put something else where a program is.
func checkPlace(path string) error {
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&anybody != 0 && info.Mode()&fs.ModeSticky == 0 {
		return fmt.Errorf("%s can be replaced by anybody; chmod o-w %s", path, dir)
	}
	return nil
}
