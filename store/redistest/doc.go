// Package redistest runs real Redis servers for tests: one alone, a primary with
// replicas and Sentinels, or a Cluster. They listen on loopback, keep what they
// have in a folder of the test's own, and end with it, also if the test's process
// is killed.
//
//	server := redistest.Start(t)                                    // on a unix socket
//	server := redistest.StartTCP(t, redistest.Setup{TLS: certs})    // on a port
//	group := redistest.StartSentinel(t, redistest.Setup{Replicas: 2}) // group.Sentinels, group.Nodes
//	cluster := redistest.StartCluster(t, redistest.Setup{Replicas: 1}) // cluster.Nodes
//
// A Server can be killed, frozen, stopped and started again. Wherever one is, a
// Proxy in front of it plays a bad network, changed at any time:
//
//	proxy := redistest.StartProxy(t, server.Addr)
//	proxy.Set(redistest.Faults{Lose: 0.1, How: redistest.Silence, Seed: 7})
//	proxy.Set(redistest.Faults{Hole: true}) // nothing passes; the zero Faults heals
//	proxy.Cut()                             // every connection, now
//
// The nodes of groups and Clusters have such a proxy already (Server.Proxy), and
// tell its address to each other, to Sentinels and to clients. So a hole in the
// primary's proxy is a partition: whoever connects to Server.Addr is on the
// primary's side, everybody else on the other.
//
// Without a redis-server on the PATH tests are skipped, and fail where CI is true.
package redistest
