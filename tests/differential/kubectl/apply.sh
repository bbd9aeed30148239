cat > a.yaml <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: a, labels: {set: one}}
data: {k: v, l: w}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {set: one}}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: img, env: [{name: A, value: "1"}]}
---
apiVersion: differential.test/v1
kind: Widget
metadata: {name: w, labels: {set: one}}
spec: {size: 3, tags: [a]}
Y
kubectl apply -f a.yaml
kubectl apply -f a.yaml
sed -e 's/k: v, l: w/k: x/' -e 's/value: "1"/value: "2"/' -e 's/size: 3/size: 4/' a.yaml > b.yaml
kubectl diff -f b.yaml
kubectl apply -f b.yaml
kubectl get -f b.yaml -o yaml
kubectl apply view-last-applied cm/a
kubectl apply --server-side -f a.yaml
kubectl apply --server-side --force-conflicts -f a.yaml
kubectl apply --server-side --field-manager=other -f b.yaml
kubectl apply --server-side --force-conflicts --field-manager=other -f b.yaml
kubectl apply -f a.yaml --dry-run=server
kubectl apply -f a.yaml --dry-run=client -o yaml
kubectl apply -f - <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: a, labels: {set: one}}
data: {only: this}
Y
kubectl apply -f - --prune -l set=one --prune-allowlist=core/v1/ConfigMap <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: b, labels: {set: one}}
Y
kubectl get cm
kubectl apply -f - <<'Y'
apiVersion: differential.test/v1
kind: Widget
metadata: {name: w}
spec: {size: 300, color: pink, stranger: 1}
Y
kubectl apply --validate=false -f - <<'Y'
apiVersion: differential.test/v1
kind: Widget
metadata: {name: w}
spec: {size: 5, stranger: 1}
Y
kubectl replace -f a.yaml
kubectl replace --force -f a.yaml
kubectl delete -f a.yaml
mkdir k && cat > k/kustomization.yaml <<'Y'
namePrefix: p-
configMapGenerator: [{name: gen, literals: [a=b]}]
Y
kubectl kustomize k
kubectl apply -k k
kubectl delete -k k
