package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/approvalbot/approvalbot/bot"
	"github.com/approvalbot/approvalbot/bot/execute"
	"github.com/approvalbot/approvalbot/bot/webhook"
	"github.com/approvalbot/approvalbot/gate"
)

// Executor is one entry of `executors:`: one way to run staged calls, and its limits.
type Executor struct {
	Webhook *webhook.Config        `yaml:"webhook"`
	MCP     *execute.MCPConfig     `yaml:"mcp"`
	Command *execute.CommandConfig `yaml:"command"`
	Worker  *Worker                `yaml:"worker"` // nobody here: workers take its calls over the API

	Timeout string `yaml:"timeout"` // of a call; 15m if not said
	AtOnce  int    `yaml:"at_once"` // calls by one replica at the same time; 8 if not said
}

// Worker is an executor that runs in other processes; there is nothing to say of it
// here.
type Worker struct{}

// Runner is an executor that was made of its section.
type Runner struct {
	Executor execute.Executor // nil: workers run its calls
	Timeout  time.Duration
	AtOnce   int // 0 means the default
}

// Limits of an executor.
const (
	defaultRunTime = 15 * time.Minute
	maxRunTime     = 24 * time.Hour
	maxAtOnce      = 256
)

// executorName goes into keys of the store and into requests of workers.
var executorName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

// executors makes what runs staged calls.
func (c *checker) executors() (known []gate.Executor) {
	c.loaded.Runners = map[string]Runner{}
	for _, name := range slices.Sorted(maps.Keys(c.loaded.Config.Executors)) {
		e, path := c.loaded.Config.Executors[name], "executors."+name
		if !executorName.MatchString(name) || name == gate.RequesterRuns {
			c.problem(path, "want a name of at most 32 small letters, digits, dashes and underscores, other than %s", gate.RequesterRuns)
		}
		known = append(known, gate.Executor{Name: name, Resends: e.Webhook != nil})
		c.loaded.Runners[name] = c.runner(path, &e)
	}
	return known
}

func (c *checker) runner(path string, e *Executor) Runner {
	r := Runner{Timeout: defaultRunTime, AtOnce: e.AtOnce}
	if d, err := time.ParseDuration(e.Timeout); e.Timeout != "" {
		if r.Timeout = d; err != nil || d < time.Second || d > maxRunTime {
			c.problem(path+".timeout", "%q: want a time from 1s to 24h", e.Timeout)
		}
	}
	if e.AtOnce < 0 || e.AtOnce > maxAtOnce {
		c.problem(path+".at_once", "want 1 to %d", maxAtOnce)
	}
	ways := 0
	made := func(key string, x execute.Executor, err error) {
		ways++
		r.Executor = x
		c.each(path+"."+key, err)
	}
	if e.Webhook != nil {
		x, err := execute.NewWebhook(*e.Webhook)
		made("webhook", x, err)
	}
	if e.MCP != nil {
		x, err := execute.NewMCP(*e.MCP)
		made("mcp", x, err)
	}
	if e.Command != nil {
		x, err := execute.NewCommand(*e.Command)
		made("command", x, err)
	}
	if e.Worker != nil {
		ways++
		if r.Executor = nil; e.AtOnce != 0 {
			c.problem(path+".at_once", "how many calls a worker runs at the same time is the worker's to say (--at-once); take it out")
		}
	}
	if ways != 1 {
		c.problem(path, "want one of webhook, mcp, command, worker")
	}
	return r
}

// each reports what others joined into one error: "key: what is wrong" of a section.
func (c *checker) each(path string, err error) {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range many.Unwrap() {
			c.each(path, e)
		}
		return
	}
	if err == nil {
		return
	}
	key, text, ok := strings.Cut(err.Error(), ": ")
	if !ok || !sectionKey.MatchString(key) {
		c.problem(path, "%v", err)
		return
	}
	c.problem(path+"."+key, "%s", text)
}

var sectionKey = regexp.MustCompile(`^[a-z][a-z_]*(\[[0-9]+\]|\.[A-Za-z0-9_]+)*$`)

// queues checks that workers' keys name executors that workers run.
func (c *checker) queues(keys []bot.KeyConfig) {
	for i, k := range keys {
		for j, q := range k.Queues {
			if e, ok := c.loaded.Config.Executors[q]; !ok || e.Worker == nil {
				c.problem(fmt.Sprintf("keys[%d].queues[%d]", i, j), "no executor named %q is run by workers; add executors: {%s: {worker: {}}}, or correct the name", q, q)
			}
		}
	}
}
