package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// viJSONSession is the header that holds a session.
const viJSONSession = "vmware-api-session-id"

// viJSON speaks the second protocol of a vCenter in front of the simulator, which has only the first: it reads a call in
// JSON, makes it in SOAP in the session that it belongs to, and writes the result in JSON. It is as strict as vCenter
// 8.0.3 where clients have stumbled: each object below the root has to say its type.
type viJSON struct {
	soap     *url.URL
	began    func(session string)
	mu       sync.Mutex
	sessions map[string]*soap.Client
}

func newViJSON(soapURL *url.URL, began func(string)) *viJSON {
	return &viJSON{soap: soapURL, began: began, sessions: map[string]*soap.Client{}}
}

// viCall is one method: it reads the parameters, and gives the result, which is nil where there is none.
type viCall func(ctx context.Context, client *soap.Client, this types.ManagedObjectReference, body []byte) (any, error)

func viMethod[P, R any](make func(context.Context, soap.RoundTripper, *P) (*R, error)) viCall {
	return func(ctx context.Context, client *soap.Client, this types.ManagedObjectReference, body []byte) (any, error) {
		parameters := new(P)
		if err := types.NewJSONDecoder(bytes.NewReader(body)).Decode(parameters); err != nil {
			return nil, malformed{err}
		}
		reflect.ValueOf(parameters).Elem().FieldByName("This").Set(reflect.ValueOf(this))
		response, err := make(ctx, client, parameters)
		if err != nil {
			return nil, err
		}
		result := reflect.ValueOf(response).Elem().FieldByName("Returnval")
		if !result.IsValid() || (result.Kind() == reflect.Pointer || result.Kind() == reflect.Slice) && result.IsNil() {
			return nil, nil
		}
		return result.Interface(), nil
	}
}

var viMethods = map[string]viCall{
	"RetrieveServiceContent":       viMethod(methods.RetrieveServiceContent),
	"Login":                        viMethod(methods.Login),
	"Logout":                       viMethod(methods.Logout),
	"FindByInventoryPath":          viMethod(methods.FindByInventoryPath),
	"FindByUuid":                   viMethod(methods.FindByUuid),
	"FindAllByUuid":                viMethod(methods.FindAllByUuid),
	"RetrievePropertiesEx":         viMethod(methods.RetrievePropertiesEx),
	"ContinueRetrievePropertiesEx": viMethod(methods.ContinueRetrievePropertiesEx),
	"CreatePropertyCollector":      viMethod(methods.CreatePropertyCollector),
	"DestroyPropertyCollector":     viMethod(methods.DestroyPropertyCollector),
	"CreateFilter":                 viMethod(methods.CreateFilter),
	"DestroyPropertyFilter":        viMethod(methods.DestroyPropertyFilter),
	"WaitForUpdatesEx":             viMethod(methods.WaitForUpdatesEx),
	"CreateListView":               viMethod(methods.CreateListView),
	"ModifyListView":               viMethod(methods.ModifyListView),
	"DestroyView":                  viMethod(methods.DestroyView),
	"CloneVM_Task":                 viMethod(methods.CloneVM_Task),
	"ReconfigVM_Task":              viMethod(methods.ReconfigVM_Task),
	"PowerOnVM_Task":               viMethod(methods.PowerOnVM_Task),
	"PowerOffVM_Task":              viMethod(methods.PowerOffVM_Task),
	"ShutdownGuest":                viMethod(methods.ShutdownGuest),
	"Destroy_Task":                 viMethod(methods.Destroy_Task),
}

// malformed is a body that cannot be read.
type malformed struct{ error }

// viPath takes a path apart: its managed object and the method; false where it is none of this protocol.
func viPath(path string) (types.ManagedObjectReference, string, bool) {
	parts := strings.Split(strings.TrimPrefix(path, "/sdk/vim25/"), "/")
	if !strings.HasPrefix(path, "/sdk/vim25/") || len(parts) != 4 {
		return types.ManagedObjectReference{}, "", false
	}
	return types.ManagedObjectReference{Type: parts[1], Value: parts[2]}, parts[3], true
}

func (v *viJSON) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	this, method, ok := viPath(r.URL.Path)
	call, known := viMethods[method]
	if !ok || !known || r.Method != http.MethodPost {
		http.Error(w, "no such method", http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	if where := untyped(body); where != "" {
		v.fault(w, &types.InvalidArgument{InvalidProperty: where}, "Invalid MoRef field: "+where)
		return
	}
	client, id := v.client(r.Header.Get(viJSONSession), method)
	if client == nil {
		v.fault(w, &types.NotAuthenticated{}, "The session is not authenticated.")
		return
	}
	result, err := call(r.Context(), client, this, body)
	switch {
	case err != nil:
		v.failed(w, err)
		return
	case method == "Login":
		session := result.(types.UserSession)
		id = session.Key
		v.mu.Lock()
		v.sessions[id] = client
		v.mu.Unlock()
		v.began(id)
	}
	if id != "" {
		w.Header().Set(viJSONSession, id)
	}
	if result == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	write(w, http.StatusOK, encoded(result))
}

// client is whoever makes the call: of its session, or a new one where none is needed.
func (v *viJSON) client(session, method string) (*soap.Client, string) {
	if method == "Login" || session == "" && method == "RetrieveServiceContent" {
		return soap.NewClient(v.soap, true), ""
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if client := v.sessions[session]; client != nil {
		return client, session
	}
	if method == "RetrieveServiceContent" {
		return soap.NewClient(v.soap, true), ""
	}
	return nil, ""
}

func (v *viJSON) failed(w http.ResponseWriter, err error) {
	var bad malformed
	switch {
	case errors.As(err, &bad):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case soap.IsSoapFault(err):
		fault := soap.ToSoapFault(err)
		v.fault(w, fault.VimFault(), fault.String)
	default:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

// fault writes a fault: its members, and what it says beside them.
func (v *viJSON) fault(w http.ResponseWriter, fault any, text string) {
	value, ok := encoded(fault).(map[string]any)
	if !ok {
		value = map[string]any{"_typeName": "SystemError"}
	}
	value["faultstring"] = text
	write(w, http.StatusInternalServerError, value)
}

// encoded is a value as JSON has it, with faults of tasks as vCenter writes them.
func encoded(value any) any {
	var buffer bytes.Buffer
	if err := types.NewJSONEncoder(&buffer).Encode(value); err != nil {
		return map[string]any{"_typeName": "SystemError", "reason": err.Error()}
	}
	var tree any
	decoder := json.NewDecoder(&buffer)
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return map[string]any{"_typeName": "SystemError", "reason": err.Error()}
	}
	return flattened(tree)
}

// flattened takes the wrapping from localized faults, which vCenter's JSON does not have.
func flattened(tree any) any {
	switch node := tree.(type) {
	case []any:
		for i := range node {
			node[i] = flattened(node[i])
		}
	case map[string]any:
		if fault, ok := node["fault"].(map[string]any); ok && node["_typeName"] == "LocalizedMethodFault" {
			fault["faultstring"] = node["localizedMessage"]
			return flattened(fault)
		}
		for name := range node {
			node[name] = flattened(node[name])
		}
	}
	return tree
}

func write(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value)
}

// untyped names a member of the body that is an object without its type; "" where there is none.
func untyped(body []byte) string {
	var root map[string]any
	if json.Unmarshal(body, &root) != nil {
		return ""
	}
	for name, member := range root {
		if name != "_typeName" && lacksType(member) {
			return name
		}
	}
	return ""
}

func lacksType(value any) bool {
	switch node := value.(type) {
	case []any:
		for _, item := range node {
			if lacksType(item) {
				return true
			}
		}
	case map[string]any:
		if _, ok := node["_typeName"].(string); !ok {
			return true
		}
		for _, member := range node {
			if lacksType(member) {
				return true
			}
		}
	}
	return false
}
