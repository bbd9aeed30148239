// Command vcsim runs the simulator of vCenter's own Go library for Evenkeel's tests: SOAP over TLS on loopback, and a
// control API for what nobody can do to it over the wire. It prints one line of JSON once it takes calls, and stops
// when its standard input closes: no test leaves one behind.
package main

import (
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// templateName is the VM that clones are made from.
const templateName = "DC0_C0_RP0_VM0"

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address on loopback")
	certificate := flag.String("certificate", "", "file that keeps the certificate over a restart; made where it is not there")
	user := flag.String("user", "", "the one user; any where this is empty")
	password := flag.String("password", "", "that user's password")
	flag.Parse()
	if err := run(*listen, *certificate, *user, *password); err != nil {
		log.Fatal(err)
	}
}

func run(listen, certificateFile, user, password string) error {
	identity, err := loadIdentity(certificateFile)
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	if !listener.Addr().(*net.TCPAddr).IP.IsLoopback() {
		return fmt.Errorf("%s is not loopback", listener.Addr())
	}
	model := simulator.VPX()
	model.Autostart = false
	if err := model.Create(); err != nil {
		return err
	}
	defer model.Remove()
	if err := markTemplate(model); err != nil {
		return err
	}
	mendViews(model.Service.Context.Map)
	// Reads do not wait for a delayed task to end.
	simulator.TaskDelay = simulator.DelayConfig{MethodDelay: map[string]int{"LockHandoff": 0}}
	service := model.Service
	service.ServeMux = http.NewServeMux()
	service.Listen = &url.URL{Host: "127.0.0.1:0"}
	if user != "" {
		service.Listen.User = url.UserPassword(user, password)
	}
	// Its own listener is not used: ours stands before the same handlers, so that answers can go wrong.
	inner := service.NewServer()
	defer inner.Close()
	front := newFront(service.ServeMux)
	front.json = newViJSON(inner.URL, front.began)
	control := &control{model: model, front: front}
	controlListener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { log.Fatal(http.Serve(controlListener, control.handler())) }()
	server := &http.Server{Handler: front, ErrorLog: log.New(io.Discard, "", 0)}
	config := &tls.Config{Certificates: []tls.Certificate{identity.certificate}, MinVersion: tls.VersionTLS12}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	ready := map[string]string{
		"address": listener.Addr().String(), "control": controlListener.Addr().String(), "ca": identity.pem, "sha1": identity.sha1, "sha256": identity.sha256,
		"template": "/DC0/vm/" + templateName,
	}
	if err := json.NewEncoder(os.Stdout).Encode(ready); err != nil {
		return err
	}
	return server.Serve(tls.NewListener(listener, config))
}

func markTemplate(model *simulator.Model) error {
	registry := model.Service.Context.Map
	for _, entity := range registry.All("VirtualMachine") {
		machine, ok := entity.(*simulator.VirtualMachine)
		if ok && machine.Name == templateName {
			body := machine.MarkAsTemplate(&types.MarkAsTemplate{This: machine.Self})
			if fault := body.Fault(); fault != nil {
				return fmt.Errorf("template: %s", fault.String)
			}
			return nil
		}
	}
	return fmt.Errorf("the model has no %s", templateName)
}
