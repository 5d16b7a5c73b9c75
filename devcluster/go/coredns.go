package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	// Only what a cluster's own zone needs: each further plugin brings a tree of dependencies.
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/ready"
)

// coreDNSFlags are the global flags that importing CoreDNS registers. kubectl copies the global set and
// panics on a second -p.
var coreDNSFlags = []string{"conf", "dns.port", "log-format", "p", "pidfile", "plugins", "quiet", "version"}

func runCoreDNS() int {
	// The order in which plugins see a request; CoreDNS's generated list names plugins that are not compiled in.
	dnsserver.Directives = []string{"bind", "errors", "health", "ready", "cache", "loadbalance", "kubernetes"}
	coremain.Run()
	return 0
}
