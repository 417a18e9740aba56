package store

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/approvalbot/approvalbot/gate"
)

// Problems says what in a configuration cannot be, by the names it has in the
// config file.
func (c *Config) Problems() []gate.Problem {
	p := c.Redis.problems()
	many := c.Redis.Sentinel != nil || c.Redis.Cluster
	p.add(!slices.Contains([]Durability{"", Strict, Standard}, c.Durability), "durability", fmt.Sprintf("%q: want %s or %s", c.Durability, Strict, Standard))
	p.add(many && c.Durability == Standard, "durability", "standard needs one primary that nothing takes over from; with sentinel or cluster use strict")
	p.add(c.WaitReplicas > 0 && c.Durability == Standard, "wait_replicas", "standard has no replicas to wait for; use durability strict")
	p.add(c.WaitTimeout != "" && c.WaitReplicas == 0, "wait_timeout", "nothing is waited for; give wait_replicas, or take this out")
	d, err := time.ParseDuration(c.WaitTimeout)
	p.add(c.WaitTimeout != "" && (err != nil || d < time.Millisecond || d > time.Second), "wait_timeout", "want a time from 1ms to 1s, like 500ms")
	return p
}

func (c *Server) problems() (p problems) {
	sentinel := c.Sentinel != nil
	none := len(c.Addrs) == 0 || slices.Contains(c.Addrs, "")
	p.add(none, "redis.addrs", `want one address, like ["localhost:6379"]`)
	p.add(!none && len(c.Addrs) > 1 && !sentinel && !c.Cluster, "redis.addrs",
		"want one address; if these are Sentinels add sentinel: {master: NAME}, if they are nodes of a Cluster add cluster: true")
	p.add((sentinel || c.Cluster) && slices.ContainsFunc(c.Addrs, isPath), "redis.addrs", "want host:port; Sentinels and Clusters are not on unix sockets")
	p.add(sentinel && c.Cluster, "redis.cluster", "sentinel is given too; keep one of them")
	p.add(sentinel && c.Sentinel.Master == "", "redis.sentinel.master", "want the name that the Sentinels have for the primary, like mymaster")
	p.add(c.Cluster && c.DB != 0, "redis.db", "a Cluster has database 0 alone; take this out")
	return p
}

type problems []gate.Problem

func (p *problems) add(is bool, path, text string) {
	if is {
		*p = append(*p, gate.Problem{Path: "store." + path, Text: text})
	}
}

func isPath(addr string) bool { return strings.HasPrefix(addr, "/") }

// wait is what all replicas confirm, and for how long they are waited for.
func (c *Config) wait() confirmation {
	if c.WaitReplicas == 0 {
		return confirmation{}
	}
	d, err := time.ParseDuration(c.WaitTimeout)
	if err != nil { // there is none, see Problems
		d = 500 * time.Millisecond
	}
	return confirmation{replicas: c.WaitReplicas, timeout: d}
}
