package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	cadvisor "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	nodeutil "k8s.io/component-helpers/node/util"
	"k8s.io/kubernetes/pkg/kubelet/cm/admission"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/nodestatus"
)

const look = 5 * time.Millisecond

// values is a line of output: what the device manager has of a resource, since when in seconds of the epoch.
type values struct {
	At          float64 `json:"at"`
	Resource    string  `json:"resource"`
	Capacity    int64   `json:"capacity"`
	Allocatable int64   `json:"allocatable"`
	Removed     bool    `json:"removed"`
}

// admitted is a line of output: the answer to "allocate".
type admitted struct {
	Pod     string `json:"pod"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func kubelet(args []string, commands <-chan string) error {
	settings, err := clientcmd.BuildConfigFromFlags("", args[0])
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(settings)
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseFloat(args[2], 64)
	if err != nil {
		return err
	}
	manager, err := devicemanager.NewManagerImpl(nil, topologymanager.NewFakeManager())
	if err != nil {
		return err
	}
	ready := config.NewSourcesReady(func(sets.Set[string]) bool { return true })
	var pods []*v1.Pod
	active := func() []*v1.Pod { return pods }
	if err := manager.Start(active, ready, containermap.NewContainerMap(), sets.New[string]()); err != nil {
		return err
	}
	lines := json.NewEncoder(os.Stdout)
	known := map[v1.ResourceName]values{}
	removed := sets.New[string]()
	observe := func() (v1.ResourceList, v1.ResourceList, []string) {
		capacity, allocatable, gone := manager.GetCapacity()
		now := map[v1.ResourceName]values{}
		for name := range capacity {
			all, healthy := capacity[name], allocatable[name]
			now[name] = values{Resource: string(name), Capacity: all.Value(), Allocatable: healthy.Value()}
			removed.Delete(string(name))
		}
		for _, name := range gone {
			now[v1.ResourceName(name)] = values{Resource: name, Removed: true}
			removed.Insert(name)
		}
		for name, found := range now {
			if known[name] != found {
				known[name] = found
				found.At = float64(time.Now().UnixMicro()) / 1e6
				lines.Encode(found)
			}
		}
		return capacity, allocatable, removed.UnsortedList()
	}
	var synced time.Time
	for {
		select {
		case command := <-commands:
			pod, answer := allocate(manager, strings.Fields(command))
			if answer.Reason == "" {
				pods = append(pods, pod)
			}
			lines.Encode(answer)
		case <-time.After(look):
			observe()
		}
		if time.Since(synced).Seconds() >= seconds {
			synced = time.Now()
			if err := syncStatus(client, args[1], observe); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}
}

// allocate admits a pod with one container, by "allocate POD RESOURCE COUNT".
func allocate(manager *devicemanager.ManagerImpl, words []string) (*v1.Pod, admitted) {
	limits := v1.ResourceList{v1.ResourceName(words[2]): resource.MustParse(words[3])}
	container := v1.Container{Name: "c", Resources: v1.ResourceRequirements{Limits: limits, Requests: limits}}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: words[1], UID: types.UID(words[1])},
		Spec:       v1.PodSpec{Containers: []v1.Container{container}},
	}
	result := admission.GetPodAdmitResult(manager.Allocate(pod, &container))
	return pod, admitted{Pod: words[1], Reason: result.Reason, Message: result.Message}
}

// syncStatus updates the Node's capacity and allocatable by the kubelet's own setter, with the rest of the Node as it is.
func syncStatus(client kubernetes.Interface, name string, devices func() (v1.ResourceList, v1.ResourceList, []string)) error {
	limited, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	before, err := client.CoreV1().Nodes().Get(limited, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	machine := func() (*cadvisor.MachineInfo, error) {
		info, cpu, memory := before.Status.NodeInfo, before.Status.Capacity.Cpu(), before.Status.Capacity.Memory()
		return &cadvisor.MachineInfo{
			NumCores: int(cpu.Value()), MemoryCapacity: uint64(memory.Value()),
			BootID: info.BootID, MachineID: info.MachineID, SystemUUID: info.SystemUUID,
		}, nil
	}
	reserved := func() v1.ResourceList { return v1.ResourceList{v1.ResourcePods: resource.Quantity{}} }
	set := nodestatus.MachineInfo(name, int(before.Status.Capacity.Pods().Value()), 0, machine,
		func(bool) v1.ResourceList { return nil }, devices, reserved, func(_, _, _ string) {}, false)
	after := before.DeepCopy()
	if err := set(limited, after); err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil
	}
	for place := range after.Status.Conditions {
		after.Status.Conditions[place].LastHeartbeatTime = metav1.Now()
	}
	_, _, err = nodeutil.PatchNodeStatus(client.CoreV1(), types.NodeName(name), before, after)
	return err
}
