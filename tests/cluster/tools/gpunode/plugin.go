package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// devicePlugin serves devices that never become healthy again, as NVIDIA's plugin does.
type devicePlugin struct {
	api.UnimplementedDevicePluginServer
	mutex   sync.Mutex
	devices []*api.Device
	changed chan struct{}
}

func plugin(args []string, commands <-chan string) error {
	resource := args[0]
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	for {
		if err := serve(resource, count, commands); err != nil {
			return err
		}
	}
}

// serve starts with all devices healthy, and ends for a new kubelet, which removes the sockets of plugins before it
// listens: they may be created only then.
func serve(resource string, count int, commands <-chan string) error {
	kubelet := listening()
	served := &devicePlugin{changed: make(chan struct{})}
	for number := range count {
		served.devices = append(served.devices, &api.Device{ID: fmt.Sprintf("gpu-%d", number), Health: api.Healthy})
	}
	endpoint := fmt.Sprintf("gpu-%d.sock", time.Now().UnixNano())
	socket, err := net.Listen("unix", filepath.Join(api.DevicePluginPath, endpoint))
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	defer server.Stop()
	api.RegisterDevicePluginServer(server, served)
	go server.Serve(socket)
	if err := register(resource, endpoint); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return nil
	}
	for {
		select {
		case command := <-commands:
			served.unhealthy(strings.TrimPrefix(command, "unhealthy "))
		case <-time.After(look):
			now, err := os.Stat(api.KubeletSocket)
			if err == nil && !(os.SameFile(kubelet, now) && kubelet.ModTime().Equal(now.ModTime())) {
				return nil
			}
		}
	}
}

// listening waits for a kubelet that accepts connections; it returns its socket.
func listening() os.FileInfo {
	for ; ; time.Sleep(look) {
		found, err := os.Stat(api.KubeletSocket)
		if err != nil {
			continue
		}
		if link, err := net.Dial("unix", api.KubeletSocket); err == nil {
			link.Close()
			return found
		}
	}
}

func register(resource, endpoint string) error {
	link, err := grpc.NewClient("unix://"+api.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer link.Close()
	limited, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	request := &api.RegisterRequest{Version: api.Version, Endpoint: endpoint, ResourceName: resource}
	_, err = api.NewRegistrationClient(link).Register(limited, request)
	return err
}

func (p *devicePlugin) unhealthy(device string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for place, known := range p.devices {
		if known.ID == device {
			p.devices[place] = &api.Device{ID: device, Health: api.Unhealthy}
		}
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *devicePlugin) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	for {
		p.mutex.Lock()
		devices, changed := append([]*api.Device{}, p.devices...), p.changed
		p.mutex.Unlock()
		if err := stream.Send(&api.ListAndWatchResponse{Devices: devices}); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (p *devicePlugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

func (p *devicePlugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	answer := &api.AllocateResponse{}
	for range request.ContainerRequests {
		answer.ContainerResponses = append(answer.ContainerResponses, &api.ContainerAllocateResponse{})
	}
	return answer, nil
}
