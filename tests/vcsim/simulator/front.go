package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// front stands before the simulator: it counts calls, knows the sessions, and has answers go wrong.
type front struct {
	inner    http.Handler
	json     http.Handler
	mu       sync.Mutex
	sessions map[string]bool
	calls    map[string]int
	trouble  []trouble
}

// trouble is how calls of a method go wrong, so many times.
type trouble struct {
	kind, method string
	times        int
}

func newFront(inner http.Handler) *front {
	return &front{inner: inner, sessions: map[string]bool{}, calls: map[string]int{}}
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 16<<20))
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	method, inner := methodOf(body), f.inner
	if _, name, ok := viPath(r.URL.Path); ok {
		method, inner = name, f.json
	}
	switch f.begin(method) {
	case "html":
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!DOCTYPE html><html><body>Welcome</body></html>")
		return
	case "unavailable":
		http.Error(w, "try again later", http.StatusServiceUnavailable)
		return
	case "garbage":
		w.Header().Set("Content-Type", "text/xml")
		_, _ = io.WriteString(w, "<soapenv:Envelope><soapenv:Body><returnval>")
		return
	case "hang":
		select {
		case <-r.Context().Done():
		case <-time.After(time.Minute):
		}
		return
	case "close":
		hangUp(w)
		return
	case "lost":
		// It takes effect, and the answer is lost.
		inner.ServeHTTP(&discard{header: http.Header{}}, r)
		hangUp(w)
		return
	case "huge":
		w.Header().Set("Content-Type", "text/xml")
		chunk := []byte(strings.Repeat("x", 1<<20))
		for range 64 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
		return
	}
	inner.ServeHTTP(&recorder{ResponseWriter: w, front: f}, r)
}

// begin counts a call, and tells how it goes wrong.
func (f *front) begin(method string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[method]++
	for i := range f.trouble {
		t := &f.trouble[i]
		if t.times > 0 && (t.method == "*" || t.method == method) {
			t.times--
			return t.kind
		}
	}
	return ""
}

func hangUp(w http.ResponseWriter) {
	connection, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = connection.Close()
	}
}

// methodOf finds the method in an envelope: the first element of its body.
func methodOf(body []byte) string {
	_, rest, found := strings.Cut(string(body), "Body>")
	if !found {
		return ""
	}
	rest = strings.TrimPrefix(strings.TrimSpace(rest), "<")
	return rest[:max(strings.IndexAny(rest, " >"), 0)]
}

// recorder notes the sessions that answers begin.
type recorder struct {
	http.ResponseWriter
	front *front
}

func (r *recorder) WriteHeader(code int) {
	for _, cookie := range (&http.Response{Header: r.Header()}).Cookies() {
		if cookie.Name == "vmware_soap_session" {
			r.front.began(cookie.Value)
		}
	}
	r.ResponseWriter.WriteHeader(code)
}

// began notes a session.
func (f *front) began(session string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sessions[session] = true
}

// discard takes an answer that nobody gets.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }

func (f *front) addTrouble(kind, method string, times int) error {
	switch kind {
	case "html", "unavailable", "garbage", "hang", "close", "lost", "huge":
	default:
		return fmt.Errorf("no trouble of the kind %q", kind)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trouble = append(f.trouble, trouble{kind, method, times})
	return nil
}
