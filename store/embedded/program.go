package embedded

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// Program is a server that is installed on this machine.
type Program struct {
	Path    string
	Version string // "7.0.15"
}

// String names it as people do, like "redis-server 7.0.15".
func (p Program) String() string {
	return p.Path[strings.LastIndexByte(p.Path, '/')+1:] + " " + p.Version
}

const (
	oldest  = 7 // the first major version whose scripts can do what the store's do
	install = "install one (Debian: apt-get install redis-server; macOS: brew install redis), or choose another store: a Redis that runs elsewhere, or --store memory, where nothing survives"
)

// Find returns the first server on the PATH that is new enough.
func Find(ctx context.Context) (Program, error) {
	var useless []string
	for _, name := range []string{"redis-server", "valkey-server"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		version, err := version(ctx, path)
		switch {
		case ctx.Err() != nil:
			return Program{}, ctx.Err()
		case err != nil:
			useless = append(useless, fmt.Sprintf("%s does not tell its version (%v)", path, err))
		case newEnough(version):
			return Program{path, version}, nil
		default:
			useless = append(useless, fmt.Sprintf("%s is %s", path, version))
		}
	}
	if useless != nil {
		return Program{}, fmt.Errorf("%s; want %d.0 or later: %s", strings.Join(useless, ", "), oldest, install)
	}
	return Program{}, errors.New("there is no redis-server or valkey-server on the PATH; " + install)
}

// saidVersion is the version in "Redis server v=7.0.15 sha=…", or Valkey's same words.
var saidVersion = regexp.MustCompile(`\bv=([0-9][0-9.]*)`)

func version(ctx context.Context, path string) (string, error) {
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", err
	}
	if m := saidVersion.FindSubmatch(out); m != nil {
		return string(m[1]), nil
	}
	return "", errors.New("it says something else")
}

func newEnough(version string) bool {
	major, _, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(major)
	return n >= oldest
}
