// Command karpenter answers scenarios with Karpenter's own scheduler, and with -disrupt with its methods of disruption.
//
// It reads one scenario a line on stdin and writes one decision a line on stdout, in the shape of
// `gpu-provisioner schedule [--disrupt] --json-lines`, so that both can be compared.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/samber/lo"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakecr "sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/fake"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	reqs "sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/test"
	nodepoolutils "sigs.k8s.io/karpenter/pkg/utils/nodepool"
)

type offering struct {
	Zone, CapacityType string
	Price              float64
	Available          bool
	Labels             []corev1.NodeSelectorRequirement
}

type instanceType struct {
	Name         string                           `json:"name"`
	Requirements []corev1.NodeSelectorRequirement `json:"requirements"`
	Capacity     corev1.ResourceList              `json:"capacity"`
	Overhead     corev1.ResourceList              `json:"overhead"`
	Offerings    []offering                       `json:"offerings"`
}

type node struct {
	Node      *corev1.Node  `json:"node"`
	NodeClaim *v1.NodeClaim `json:"nodeClaim"`
	Pods      []*corev1.Pod `json:"pods"`
}

type scenario struct {
	NodePools       []*v1.NodePool `json:"nodePools"`
	InstanceTypes   []instanceType `json:"instanceTypes"`
	DaemonPods      []*corev1.Pod  `json:"daemonPods"`
	Nodes           []node         `json:"nodes"`
	Pods            []*corev1.Pod  `json:"pods"`
	WellKnownLabels []string       `json:"wellKnownLabels"`

	Namespaces []*corev1.Namespace `json:"namespaces"`

	// Of disruption only.
	PodDisruptionBudgets []*policyv1.PodDisruptionBudget `json:"podDisruptionBudgets"`
	Now                  time.Time                       `json:"now"`
}

type newNodeClaim struct {
	NodePool      string                                    `json:"nodePool"`
	Pods          []string                                  `json:"pods"`
	InstanceTypes []string                                  `json:"instanceTypes"`
	Requirements  []v1.NodeSelectorRequirementWithMinValues `json:"requirements"`
	Requests      corev1.ResourceList                       `json:"requests"`
}

type decision struct {
	NewNodeClaims []newNodeClaim      `json:"newNodeClaims"`
	Existing      map[string][]string `json:"existing"`
	Errors        map[string]string   `json:"errors"`
	Micros        int64               `json:"micros"`
}

func main() {
	disruption := flag.Bool("disrupt", false, "answer what would be disrupted")
	flag.Parse()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 1<<28)
	out := bufio.NewWriter(os.Stdout)
	for lines.Scan() {
		var in scenario
		lo.Must0(json.Unmarshal(lines.Bytes(), &in))
		var answer any
		var err error
		if *disruption {
			answer, err = disrupt(in)
		} else {
			answer, err = decide(in)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		lo.Must(out.Write(append(lo.Must(json.Marshal(answer)), '\n')))
		lo.Must0(out.Flush())
	}
}

func decide(in scenario) (decision, error) {
	ctx := options.ToContext(injection.WithControllerName(context.Background(), "provisioner"), test.Options())
	kube, cluster, provider, err := load(ctx, in, clock.RealClock{})
	if err != nil {
		return decision{}, err
	}
	types_ := provider.InstanceTypes
	pools := lo.Filter(in.NodePools, func(np *v1.NodePool, _ int) bool { return np.Spec.Replicas == nil })
	nodepoolutils.OrderByWeight(pools)
	byPool := map[string][]*cloudprovider.InstanceType{}
	for _, np := range pools {
		byPool[np.Name] = types_
	}
	stateNodes := cluster.DeepCopyNodes().Active()

	start := time.Now()
	topology, err := scheduling.NewTopology(ctx, kube, cluster, stateNodes, pools, byPool, in.Pods)
	if err != nil {
		return decision{}, err
	}
	scheduler := scheduling.NewScheduler(ctx, kube, pools, cluster, stateNodes, topology, byPool, in.DaemonPods,
		events.NewRecorder(&record.FakeRecorder{}), clock.RealClock{}, nil, nil)
	results, err := scheduler.Solve(ctx, in.Pods)
	if err != nil {
		return decision{}, err
	}
	results = results.TruncateInstanceTypes(ctx, 600)
	micros := time.Since(start).Microseconds()
	return answer(results, micros), nil
}

// load returns a client and a cluster state that hold the objects of the scenario, besides `more` for the client only.
func load(ctx context.Context, in scenario, clk clock.Clock, more ...client.Object) (client.Client, *state.Cluster, *fake.CloudProvider, error) {
	v1.WellKnownLabels.Insert(in.WellKnownLabels...)
	provider := fake.NewCloudProvider()
	provider.InstanceTypes = lo.Map(in.InstanceTypes, func(it instanceType, _ int) *cloudprovider.InstanceType { return convert(it) })
	prepare(in)

	objects := more
	for _, n := range in.Nodes {
		if n.Node != nil {
			objects = append(objects, n.Node)
		}
		if n.NodeClaim != nil {
			objects = append(objects, n.NodeClaim)
		}
		for _, p := range n.Pods {
			objects = append(objects, p)
		}
	}
	for _, p := range in.Pods {
		objects = append(objects, p)
	}
	for _, ns := range in.Namespaces {
		objects = append(objects, ns)
	}
	kube := fakecr.NewClientBuilder().WithObjects(objects...).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
			return []string{o.(*corev1.Pod).Spec.NodeName}
		}).Build()
	cluster := state.NewCluster(clk, kube, provider)
	for _, n := range in.Nodes {
		if n.NodeClaim != nil {
			cluster.UpdateNodeClaim(n.NodeClaim)
		}
		if n.Node != nil {
			if err := cluster.UpdateNode(ctx, n.Node); err != nil {
				return nil, nil, nil, err
			}
		}
		for _, p := range n.Pods {
			if err := cluster.UpdatePod(ctx, p); err != nil {
				return nil, nil, nil, err
			}
		}
	}
	return kube, cluster, provider, nil
}

// prepare sets what an API server would have set.
func prepare(in scenario) {
	number := 0
	identify := func(p *corev1.Pod) {
		number++
		if p.Namespace == "" {
			p.Namespace = "default"
		}
		if p.UID == "" {
			p.UID = types.UID(fmt.Sprintf("uid-%06d", number))
		}
	}
	for _, p := range in.Pods {
		identify(p)
	}
	for _, p := range in.DaemonPods {
		identify(p)
	}
	for _, n := range in.Nodes {
		for _, p := range n.Pods {
			identify(p)
			if n.Node != nil {
				p.Spec.NodeName = n.Node.Name
			}
		}
	}
}

func convert(it instanceType) *cloudprovider.InstanceType {
	return &cloudprovider.InstanceType{
		Name:         it.Name,
		Requirements: reqs.NewNodeSelectorRequirements(it.Requirements...),
		Capacity:     it.Capacity,
		Overhead:     &cloudprovider.InstanceTypeOverhead{KubeReserved: it.Overhead},
		Offerings: lo.Map(it.Offerings, func(o offering, _ int) *cloudprovider.Offering {
			labels := reqs.NewLabelRequirements(map[string]string{
				v1.CapacityTypeLabelKey:  o.CapacityType,
				corev1.LabelTopologyZone: o.Zone,
			})
			labels.Add(reqs.NewNodeSelectorRequirements(o.Labels...).Values()...)
			return &cloudprovider.Offering{
				Requirements: labels,
				Price:        o.Price,
				Available:    o.Available,
			}
		}),
	}
}

func answer(results scheduling.Results, micros int64) decision {
	d := decision{Existing: map[string][]string{}, Errors: map[string]string{}, Micros: micros, NewNodeClaims: []newNodeClaim{}}
	for _, nc := range results.NewNodeClaims {
		d.NewNodeClaims = append(d.NewNodeClaims, describeNodeClaim(nc))
	}
	for _, n := range results.ExistingNodes {
		if len(n.Pods) > 0 {
			d.Existing[n.Name()] = names(n.Pods)
		}
	}
	for p, err := range results.PodErrors {
		d.Errors[name(p)] = err.Error()
	}
	return d
}

func name(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }

func names(pods []*corev1.Pod) []string {
	found := lo.Map(pods, func(p *corev1.Pod, _ int) string { return name(p) })
	sort.Strings(found)
	return found
}
