kubectl create configmap a --from-literal=k=v
kubectl label cm a x=1 y=2
kubectl label cm a x=2
kubectl label cm a x=2 --overwrite
kubectl label cm a y-
kubectl label cm a 'bad label=1'
kubectl annotate cm a note='some words'
kubectl annotate cm a note-
kubectl patch cm a --type=merge -p '{"data":{"k":"w"}}'
kubectl patch cm a --type=json -p '[{"op":"remove","path":"/data/absent"}]'
kubectl patch cm a --type=json -p '[{"op":"add","path":"/data/n","value":"1"}]'
kubectl patch cm a -p '{"data":{"n":null}}' -o yaml
kubectl patch cm a -p '{"data":{"n":null}}'
KUBE_EDITOR='sed -i s/w/edited/' kubectl edit cm a
KUBE_EDITOR=true kubectl edit cm a
kubectl get cm a -o jsonpath='{.data}{"\n"}'
kubectl set data 2>/dev/null
kubectl create deployment web --image=img
kubectl scale deployment web --replicas=3
kubectl scale deployment web --replicas=4 --current-replicas=9
kubectl set image deployment/web img=other
kubectl set env deployment/web A=1
kubectl get deployment web
kubectl rollout restart deployment web
kubectl rollout history deployment web
kubectl apply -f - <<'Y'
apiVersion: differential.test/v1
kind: Widget
metadata: {name: w}
spec: {}
Y
kubectl scale widget w --replicas=2
kubectl get widget w -o yaml
kubectl patch widget w --subresource=status --type=merge -p '{"status":{"phase":"Up","conditions":[{"type":"Ready","status":"True"}]}}'
kubectl wait --for=condition=Ready widget/w --timeout=5s
kubectl wait --for=jsonpath='{.status.phase}'=Up widget/w --timeout=5s
kubectl wait --for=condition=Other widget/w --timeout=1s
kubectl get widget w -o wide
kubectl get widget w --subresource=status -o yaml
kubectl taint node none a=b:NoSchedule
