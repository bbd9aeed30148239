kubectl create configmap a --from-literal=k=v
kubectl describe configmap a
kubectl create secret generic s --from-literal=password=hush
kubectl describe secret s
kubectl create deployment web --image=img
kubectl describe deployment web
kubectl create service clusterip svc --tcp=80:8080
kubectl describe service svc | grep -v -i endpoints
kubectl create role r --verb=get --resource=pods
kubectl describe role r
kubectl create quota q --hard=pods=3
kubectl describe quota q
kubectl apply -f - <<'Y'
apiVersion: differential.test/v1
kind: Widget
metadata: {name: w}
spec: {size: 3, rules: [{name: r}]}
Y
kubectl describe widget w
kubectl describe namespace $NS
kubectl describe nothing x
kubectl describe cm nope
kubectl create -f - <<'Y'
apiVersion: v1
kind: Event
metadata: {name: e}
involvedObject: {apiVersion: v1, kind: ConfigMap, name: a, namespace: kubectl-describe}
reason: Because
message: something happened
type: Normal
count: 1
source: {component: test}
firstTimestamp: "2026-01-01T00:00:00Z"
lastTimestamp: "2026-01-01T00:00:00Z"
Y
kubectl events --for cm/a
kubectl get events
kubectl describe configmap a
