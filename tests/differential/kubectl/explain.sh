kubectl explain widgets.spec
kubectl explain widgets.spec.rules
kubectl explain widgets.status --recursive
kubectl explain widgets.spec.nothing
kubectl explain nothings
kubectl api-resources --api-group=differential.test
kubectl api-resources --api-group=differential.test -o wide
kubectl api-resources --api-group=apps
kubectl api-resources --api-group=coordination.k8s.io -o name
kubectl api-resources --api-group='' -o wide
kubectl explain componentstatuses.conditions
kubectl explain bindings.target
kubectl api-versions | grep -v -e alpha -e beta -e autoscaling/v1
kubectl auth can-i create configmaps
kubectl auth can-i '*' '*'
kubectl auth whoami | grep -v UID
kubectl version -o json | grep -A3 serverVersion | grep -c major
kubectl config current-context | wc -l
