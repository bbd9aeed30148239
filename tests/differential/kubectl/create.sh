kubectl create configmap a --from-literal=k=v --from-literal=l=w
kubectl create configmap a --from-literal=k=v
kubectl create secret generic s --from-literal=password=hush
kubectl create serviceaccount sa
kubectl create deployment web --image=img --replicas=2
kubectl create service clusterip svc --tcp=80:8080
kubectl create role r --verb=get,list --resource=pods
kubectl create rolebinding rb --role=r --serviceaccount=$NS:sa
kubectl create quota q --hard=pods=3
kubectl create job j --image=img
kubectl create cronjob cj --image=img --schedule='*/5 * * * *'
kubectl create ingress i --rule='a.test/path*=svc:80'
kubectl create poddisruptionbudget p --selector=app=web --min-available=1
kubectl create configmap b --from-literal=k=v --dry-run=server -o yaml
kubectl create -f - <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {generateName: made-}
Y
kubectl create -f - <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
stranger: 1
Y
kubectl create -f - <<'Y'
apiVersion: nothing.test/v1
kind: Thing
metadata: {name: c}
Y
kubectl get role r -o yaml
kubectl get deployment,service,job,cronjob,ingress,pdb,quota
