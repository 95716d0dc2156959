package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/samber/lo"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	clock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/state/cost"
	"sigs.k8s.io/karpenter/pkg/test"
)

type command struct {
	Reason       string              `json:"reason"`
	Decision     string              `json:"decision"`
	Nodes        []string            `json:"nodes"`
	Replacements []newNodeClaim      `json:"replacements"`
	Existing     map[string][]string `json:"existing"`
	Saving       float64             `json:"saving"`
}

type commands struct {
	Commands []command `json:"commands"`
	Micros   int64     `json:"micros"`
}

// accepted takes the place of the validation after 15 s: nothing changes in a scenario.
type accepted struct{}

func (accepted) Validate(_ context.Context, cmd disruption.Command, _ time.Duration) (disruption.Command, error) {
	return cmd, nil
}

// disrupt runs Karpenter's methods in their order, at most one command of consolidation, until one creates a NodeClaim:
// Karpenter would wait until that is launched.
func disrupt(in scenario) (commands, error) {
	ctx := options.ToContext(injection.WithControllerName(context.Background(), "disruption"), test.Options())
	clk := clock.NewFakeClock(in.Now)
	kube, cluster, provider, err := load(ctx, in, clk, policies(in)...)
	if err != nil {
		return commands{}, err
	}
	recorder := events.NewRecorder(&record.FakeRecorder{})
	provisioner := provisioning.NewProvisioner(kube, recorder, provider, cluster, clk, nil, nil)
	queue := disruption.NewQueue(kube, recorder, cluster, clk, provisioner)
	consolidation := disruption.MakeConsolidation(clk, cluster, kube, provisioner, provider, recorder, queue)
	// What the machines of each NodePool cost together, for the policy Balanced.
	costs := cost.NewClusterCost(ctx, provider, kube)
	for _, n := range in.Nodes {
		if n.NodeClaim != nil {
			if err := costs.UpdateNodeClaim(ctx, n.NodeClaim); err != nil {
				return commands{}, err
			}
		}
	}
	unvalidated := disruption.WithValidator(accepted{})
	start := time.Now()
	found := commands{Commands: []command{}}
	for _, method := range []disruption.Method{
		disruption.NewEmptiness(consolidation, unvalidated),
		disruption.NewStaticDrift(cluster, provisioner, provider),
		disruption.NewDrift(kube, cluster, provisioner, recorder, clk),
		disruption.NewMultiNodeConsolidation(consolidation, unvalidated),
		disruption.NewSingleNodeConsolidation(consolidation, unvalidated),
	} {
		for again := true; again; {
			again = false
			candidates, totals, err := disruption.GetCandidatesWithTotals(
				ctx, cluster, kube, recorder, clk, provider, method.ShouldDisrupt, method.Class(), queue, costs)
			if err != nil {
				return commands{}, err
			}
			if len(candidates) == 0 {
				break
			}
			// The state of the cluster has no order of its own.
			slices.SortFunc(candidates, func(a, b *disruption.Candidate) int { return strings.Compare(a.Name(), b.Name()) })
			if setter, ok := method.(disruption.NodePoolTotalsSetter); ok {
				setter.SetNodePoolTotals(totals)
			}
			budgets, err := disruption.BuildDisruptionBudgetMapping(ctx, cluster, clk, kube, provider, recorder, method.Reason())
			if err != nil {
				return commands{}, err
			}
			made, err := method.ComputeCommands(ctx, budgets, candidates...)
			if err != nil {
				return commands{}, err
			}
			replaces := false
			for _, cmd := range made {
				if cmd.Decision() == disruption.NoOpDecision {
					continue
				}
				cmd.Method = method
				found.Commands = append(found.Commands, describe(cmd))
				cluster.MarkForDeletion(lo.Map(cmd.Candidates, func(c *disruption.Candidate, _ int) string { return c.ProviderID() })...)
				cmd.Results.Record(ctx, recorder, cluster)
				replaces = replaces || len(cmd.Replacements) > 0
				again = method.Reason() == v1.DisruptionReasonDrifted
			}
			if consolidates := method.Reason() == v1.DisruptionReasonUnderutilized && len(made) > 0; replaces || consolidates {
				found.Micros = time.Since(start).Microseconds()
				return found, nil
			}
		}
	}
	found.Micros = time.Since(start).Microseconds()
	return found, nil
}

// policies returns the objects that only disruption reads, in the form in which the cluster would hold them.
func policies(in scenario) []client.Object {
	var objects []client.Object
	for _, np := range in.NodePools {
		for _, one := range []string{v1.ConditionTypeValidationSucceeded, v1.ConditionTypeNodeClassReady} {
			np.StatusConditions().SetTrue(one)
		}
		np.Spec.Template.Spec.NodeClassRef = nodeClass()
		objects = append(objects, np)
	}
	for _, n := range in.Nodes {
		if n.NodeClaim != nil {
			n.NodeClaim.Spec.NodeClassRef = nodeClass()
		}
	}
	for _, pdb := range in.PodDisruptionBudgets {
		objects = append(objects, pdb)
	}
	for i, p := range in.DaemonPods {
		set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: fmt.Sprintf("daemon-%d", i)}}
		set.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels}, Spec: p.Spec}
		objects = append(objects, set)
	}
	return objects
}

// nodeClass is a reference to the only kind that the fake cloud provider supports.
func nodeClass() *v1.NodeClassReference {
	return &v1.NodeClassReference{Group: "karpenter.test.sh", Kind: "TestNodeClass", Name: "default"}
}

func describe(cmd disruption.Command) command {
	made := command{
		Reason:       string(cmd.Reason()),
		Decision:     string(cmd.Decision()),
		Nodes:        cmd.SourceNodeNames(),
		Replacements: []newNodeClaim{},
		Existing:     map[string][]string{},
		Saving:       cmd.EstimatedSavings(),
	}
	for _, r := range cmd.Replacements {
		made.Replacements = append(made.Replacements, describeNodeClaim(r.NodeClaim))
	}
	for _, n := range cmd.Results.ExistingNodes {
		if len(n.Pods) > 0 {
			made.Existing[n.Name()] = names(n.Pods)
		}
	}
	return made
}

func describeNodeClaim(nc *scheduling.NodeClaim) newNodeClaim {
	its := cloudprovider.InstanceTypes(nc.InstanceTypeOptions).OrderByPrice(nc.Requirements)
	return newNodeClaim{
		NodePool:      nc.NodePoolName,
		Pods:          names(nc.Pods),
		InstanceTypes: lo.Map(its, func(it *cloudprovider.InstanceType, _ int) string { return it.Name }),
		Requirements:  nc.Requirements.NodeSelectorRequirements(),
		Requests:      nc.Spec.Resources.Requests,
	}
}
