kubectl get configmaps
kubectl create configmap b --from-literal=k=v --from-literal=l=w
kubectl create configmap a --from-literal=k=v
kubectl label configmap a tier=x
kubectl get configmaps
kubectl get cm -o wide --show-labels
kubectl get cm a b -o name
kubectl get cm a -o yaml
kubectl get cm a -o json --show-managed-fields
kubectl get cm -o jsonpath='{range .items[*]}{.metadata.name}{" "}{.data.k}{"\n"}{end}'
kubectl get cm -o custom-columns=NAME:.metadata.name,K:.data.k
kubectl get cm -o go-template='{{range .items}}{{.metadata.name}} {{end}}'
kubectl get cm -l tier=x
kubectl get cm -l 'tier notin (x)'
kubectl get cm -L tier
kubectl get cm --field-selector metadata.name=b
kubectl get cm --field-selector data.k=b
kubectl get cm --sort-by=.metadata.name
kubectl get cm --sort-by=.data.l
kubectl get cm --chunk-size=1
kubectl get cm nope
kubectl get nothings
kubectl get cm --ignore-not-found nope
kubectl get cm -A -l tier=x
kubectl get namespace $NS
kubectl get crd
kubectl get widgets
kubectl get wd,gadgets
kubectl get --raw /version | grep -c gitVersion
timeout 2 kubectl get cm -w
timeout 2 kubectl get cm -w -o name --output-watch-events
kubectl get storageclasses,persistentvolumes
