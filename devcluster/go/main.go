// Package main is a Kubernetes cluster in one file: the name it is called by, or else its first argument,
// chooses the component. One binary shares the code that eight would repeat, so it links once and stays small.
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// components maps a name to a function that runs it to its end and gives the exit code.
var components = map[string]func() int{
	"coredns":                 runCoreDNS,
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver":          cobraCommand(apiserver.NewAPIServerCommand),
	"kube-controller-manager": cobraCommand(controllermanager.NewControllerManagerCommand),
	"kube-proxy":              cobraCommand(proxy.NewProxyCommand),
	"kube-scheduler":          cobraCommand(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kubectl":                 cobraCommand(kubectl.NewDefaultKubectlCommand),
	"kubelet":                 cobraCommand(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
}

// cobraCommand delays the making of a command until its flags can no longer meet those of CoreDNS.
func cobraCommand(make func() *cobra.Command) func() int {
	return func() int {
		dropFlags(coreDNSFlags...)
		return cli.Run(make())
	}
}

// dropFlags takes single flags out of the global set. The rest must stay: the kubelet needs cadvisor's.
func dropFlags(names ...string) {
	kept := flag.NewFlagSet(os.Args[0], flag.ExitOnError)
	flag.CommandLine.VisitAll(func(f *flag.Flag) {
		if !slices.Contains(names, f.Name) {
			kept.Var(f.Value, f.Name, f.Usage)
		}
	})
	flag.CommandLine = kept
}

func main() {
	name := filepath.Base(os.Args[0])
	if _, known := components[name]; !known && len(os.Args) > 1 {
		name = os.Args[1]
		os.Args = os.Args[1:]
	}
	run, known := components[name]
	if !known {
		names := strings.Join(slices.Sorted(maps.Keys(components)), ", ")
		fmt.Fprintf(os.Stderr, "%q is no component; there are %s\n", name, names)
		os.Exit(2)
	}
	os.Exit(run())
}
