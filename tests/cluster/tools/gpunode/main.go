// The parts of a GPU node that decide how many GPUs it reports, each a process of its own.
//
//	gpunode plugin RESOURCE COUNT              a device plugin; "unhealthy DEVICE" on stdin
//	gpunode kubelet KUBECONFIG NODE SECONDS    the kubelet's device manager, which updates the Node's status each so many
//	                                           seconds; "allocate POD RESOURCE COUNT" on stdin
//
// The kubelet prints a line of JSON for each change of the device manager's values, and for each pod. Both end with stdin.
package main

import (
	"bufio"
	"fmt"
	"os"
)

func main() {
	roles := map[string]func(args []string, commands <-chan string) error{"kubelet": kubelet, "plugin": plugin}
	if len(os.Args) < 4 || roles[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: gpunode plugin RESOURCE COUNT | gpunode kubelet KUBECONFIG NODE SECONDS")
		os.Exit(2)
	}
	commands := make(chan string)
	go func() {
		defer os.Exit(0)
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			commands <- lines.Text()
		}
	}()
	if err := roles[os.Args[1]](os.Args[2:], commands); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
