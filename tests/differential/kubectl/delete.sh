kubectl create configmap a
kubectl create configmap b
kubectl label cm a b x=1
kubectl delete cm a --dry-run=server
kubectl delete cm -l x=1
kubectl delete cm nope
kubectl delete cm nope --ignore-not-found
kubectl apply -f - <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: held, finalizers: [x.test/hold]}
Y
kubectl delete cm held --wait=false
kubectl delete cm held --timeout=1s
kubectl get cm held -o jsonpath='{.metadata.finalizers}{"\n"}'
kubectl patch cm held --type=merge -p '{"metadata":{"finalizers":null}}'
kubectl wait --for=delete cm/held --timeout=5s
kubectl create configmap owner
uid=$(kubectl get cm owner -o jsonpath='{.metadata.uid}')
printf '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"child","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"%s"}]}}' "$uid" | kubectl create -f -
kubectl delete cm owner --cascade=foreground
kubectl wait --for=delete cm/child --timeout=20s
kubectl create configmap owner
uid=$(kubectl get cm owner -o jsonpath='{.metadata.uid}')
printf '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"child","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"%s"}]}}' "$uid" | kubectl create -f -
kubectl delete cm owner --cascade=orphan
kubectl get cm child -o name
kubectl delete cm --all
kubectl create namespace $NS-gone
kubectl create configmap a -n $NS-gone
kubectl delete namespace $NS-gone
kubectl get namespace $NS-gone
