// Command binder binds the pods of scheduling decisions with kube-scheduler's own filter plugins.
//
// It reads one case a line on stdin: Nodes with the pods that are bound to them, and pending pods, each with the Node
// that a decision names for it. It tries them in each of the given orders, a pod that does not fit again after the
// others, and writes one line with the pods that no repetition binds, and why: those of the first order that leaves any.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// The plugins that decide where a pod without volumes and resource claims may run.
var filters = map[string]bool{
	"InterPodAffinity": true, "NodeAffinity": true, "NodePorts": true, "NodeResourcesFit": true,
	"NodeUnschedulable": true, "PodTopologySpread": true, "TaintToleration": true,
	// A profile needs both.
	"DefaultBinder": true, "PrioritySort": true,
}

type decided struct {
	Pod  *corev1.Pod `json:"pod"`
	Node string      `json:"node"`
}

type scenario struct {
	Namespaces []*corev1.Namespace `json:"namespaces"`
	Nodes      []*corev1.Node      `json:"nodes"`
	Bound      []*corev1.Pod       `json:"bound"`
	Pending    []decided           `json:"pending"`
	Orders     [][]int             `json:"orders"`
}

// state is the cluster as kube-scheduler sees it at the start of each attempt.
type state struct {
	nodes    []*corev1.Node
	pods     []*corev1.Pod
	snapshot *cache.Snapshot
}

func (s *state) NodeInfos() framework.NodeInfoLister       { return s.snapshot.NodeInfos() }
func (s *state) StorageInfos() framework.StorageInfoLister { return s.snapshot.StorageInfos() }

func (s *state) add(pods ...*corev1.Pod) {
	s.pods = append(s.pods, pods...)
	s.snapshot = cache.NewSnapshot(s.pods, s.nodes)
}

func main() {
	klog.LogToStderr(false)
	klog.SetLogger(klog.Logger{})
	metrics.Register()
	ctx := context.Background()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 1<<28)
	out := json.NewEncoder(os.Stdout)
	// A profile waits for its informers, and few sets of Namespaces serve all cases.
	profiles := map[string]*profile{}
	for lines.Scan() {
		var in scenario
		must(json.Unmarshal(lines.Bytes(), &in))
		key, err := json.Marshal(in.Namespaces)
		must(err)
		if profiles[string(key)] == nil {
			profiles[string(key)], err = newProfile(ctx, in.Namespaces)
			must(err)
		}
		must(out.Encode(profiles[string(key)].bind(ctx, in)))
	}
	must(lines.Err())
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// profile is kube-scheduler's default profile with these plugins, on a cluster that each case replaces.
type profile struct {
	framework.Framework
	cluster *state
}

func newProfile(ctx context.Context, namespaces []*corev1.Namespace) (*profile, error) {
	var objects []runtime.Object
	for _, one := range namespaces {
		objects = append(objects, one)
	}
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	defaults, err := latest.Default()
	if err != nil {
		return nil, err
	}
	chosen := defaults.Profiles[0]
	var enabled []config.Plugin
	for _, one := range chosen.Plugins.MultiPoint.Enabled {
		if filters[one.Name] {
			enabled = append(enabled, one)
		}
	}
	if len(enabled) != len(filters) {
		return nil, fmt.Errorf("kube-scheduler enables %d of the %d plugins by default", len(enabled), len(filters))
	}
	chosen.Plugins.MultiPoint.Enabled = enabled
	cluster := &state{}
	made, err := frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), &chosen,
		frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(cluster))
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return &profile{made, cluster}, err
}

func (p *profile) bind(ctx context.Context, in scenario) map[string]string {
	for _, order := range in.Orders {
		p.cluster.nodes, p.cluster.pods = in.Nodes, nil
		p.cluster.add(in.Bound...)
		if unbound := p.attempt(ctx, in.Pending, order); len(unbound) > 0 {
			return unbound
		}
	}
	return map[string]string{}
}

// attempt binds pods until no further one fits; it returns the others.
func (p *profile) attempt(ctx context.Context, pending []decided, order []int) map[string]string {
	left := order
	for {
		unbound, rest := map[string]string{}, []int{}
		for _, index := range left {
			one := pending[index]
			if status := p.fits(ctx, one); !status.IsSuccess() {
				unbound[one.Pod.Namespace+"/"+one.Pod.Name] = one.Node + ": " + status.Message()
				rest = append(rest, index)
				continue
			}
			bound := one.Pod.DeepCopy()
			bound.Spec.NodeName = one.Node
			p.cluster.add(bound)
		}
		if len(rest) == 0 || len(rest) == len(left) {
			return unbound
		}
		left = rest
	}
}

func (p *profile) fits(ctx context.Context, one decided) *fwk.Status {
	node, err := p.cluster.NodeInfos().Get(one.Node)
	if err != nil {
		return fwk.AsStatus(err)
	}
	cycle := framework.NewCycleState()
	allowed, status, _ := p.RunPreFilterPlugins(ctx, cycle, one.Pod)
	if !status.IsSuccess() {
		return status
	}
	if !allowed.AllNodes() && !allowed.NodeNames.Has(one.Node) {
		return fwk.NewStatus(fwk.Unschedulable, "excluded before filtering")
	}
	return p.RunFilterPlugins(ctx, cycle, one.Pod, node)
}
