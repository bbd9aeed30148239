//! Built-in kinds: bodies in, stored form and errors out.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::schema::{Gvk, builtin};

/// Decodes, prepares, defaults and validates a new object.
fn check(text: &str, expect: Expect) {
    let mut body: Value = serde_saphyr::from_str(text).expect("YAML");
    let copy = body.clone();
    let ty = builtin(Gvk::of(&copy)).expect("a built-in kind");
    let mut lines = Vec::new();
    match ty.decode(&mut body) {
        Ok(unknown) => lines.extend(unknown),
        Err(error) => lines.push(error.to_string()),
    }
    if lines.is_empty() || lines.iter().all(|line| line.starts_with("unknown field")) {
        ty.prepare_create(&mut body);
        let again = {
            let mut again = body.clone();
            ty.default(&mut again);
            again
        };
        assert_eq!(again, body, "defaults twice are defaults once");
        lines.extend(ty.validate_create(&body).iter().map(ToString::to_string));
        if let Some(fields) = body.as_object_mut() {
            ["apiVersion", "kind"].iter().for_each(|name| {
                fields.remove(*name);
            });
        }
        lines.push(body.to_string());
    }
    expect.assert_eq(&lines.join("\n"));
}

fn check_update(old: &str, new: &str, expect: Expect) {
    let read = |text: &str| {
        let mut body: Value = serde_saphyr::from_str(text).expect("YAML");
        body["metadata"]["resourceVersion"] = json!("1");
        body["metadata"]["name"] = json!("a");
        body["metadata"]["namespace"] = json!("ns");
        let copy = body.clone();
        let ty = builtin(Gvk::of(&copy)).expect("a built-in kind");
        ty.decode(&mut body).expect("good");
        ty.default(&mut body);
        (ty, body)
    };
    let ((ty, old), (_, new)) = (read(old), read(new));
    let lines: Vec<String> = ty.validate_update(&new, &old, None).iter().map(ToString::to_string).collect();
    expect.assert_eq(&lines.join("\n"));
}

#[test]
fn objects_of_the_kinds_that_kite_makes_get_their_defaults() {
    check(
        "{apiVersion: v1, kind: Namespace, metadata: {name: tenant-a}}",
        expect![[
            r#"{"metadata":{"labels":{"kubernetes.io/metadata.name":"tenant-a"},"name":"tenant-a"},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}}"#
        ]],
    );
    check(
        "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: ns}, spec: {selector: {app: a}, ports: [{port: 80}]}}",
        expect![[
            r#"{"metadata":{"name":"web","namespace":"ns"},"spec":{"internalTrafficPolicy":"Cluster","ports":[{"port":80,"protocol":"TCP","targetPort":80}],"selector":{"app":"a"},"sessionAffinity":"None","type":"ClusterIP"},"status":{"loadBalancer":{}}}"#
        ]],
    );
    check(
        "{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: ns}, stringData: {a: b}}",
        expect![[r#"{"data":{"a":"Yg=="},"metadata":{"name":"s","namespace":"ns"},"type":"Opaque"}"#]],
    );
    check(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: ns, labels: {}}, data: {}}",
        expect![[r#"{"metadata":{"name":"c","namespace":"ns"}}"#]],
    );
    check(
        "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: ns}, spec: {hard: {requests.cpu: 2000m, requests.memory: 1024Mi, pods: 10}}}",
        expect![[
            r#"{"metadata":{"name":"q","namespace":"ns"},"spec":{"hard":{"pods":"10","requests.cpu":"2","requests.memory":"1Gi"}},"status":{}}"#
        ]],
    );
    check(
        "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: p, namespace: ns}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1024Mi}}}}",
        expect![[
            r#"{"metadata":{"name":"p","namespace":"ns"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},"volumeMode":"Filesystem"},"status":{"phase":"Pending"}}"#
        ]],
    );
    check(
        "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: np, namespace: ns}, spec: {podSelector: {}, ingress: [{from: [{podSelector: {}}]}], egress: [{ports: [{port: 53}]}]}}",
        expect![[
            r#"{"metadata":{"name":"np","namespace":"ns"},"spec":{"egress":[{"ports":[{"port":53,"protocol":"TCP"}]}],"ingress":[{"from":[{"podSelector":{}}]}],"podSelector":{},"policyTypes":["Ingress","Egress"]}}"#
        ]],
    );
    check(
        "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: i, namespace: ns}, spec: {rules: [{host: a.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}}",
        expect![[
            r#"{"metadata":{"name":"i","namespace":"ns"},"spec":{"rules":[{"host":"a.example.com","http":{"paths":[{"backend":{"service":{"name":"web","port":{"number":80}}},"path":"/","pathType":"Prefix"}]}}]},"status":{"loadBalancer":{}}}"#
        ]],
    );
}

#[test]
fn zero_values_are_written_where_go_writes_them() {
    check(
        "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns, labels: {}, generation: 0}, spec: {hostNetwork: false, nodeName: '', terminationGracePeriodSeconds: 0, tolerations: [], volumes: [{name: v, emptyDir: {}}], containers: [{name: c, image: a, args: [], stdin: false, env: [{name: A, value: ''}]}]}}",
        expect![[
            r#"{"metadata":{"name":"p","namespace":"ns"},"spec":{"containers":[{"env":[{"name":"A"}],"image":"a","imagePullPolicy":"Always","name":"c","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","enableServiceLinks":true,"restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":0,"volumes":[{"emptyDir":{},"name":"v"}]},"status":{"phase":"Pending","qosClass":"BestEffort"}}"#
        ]],
    );
    check(
        "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r, namespace: ns}, rules: []}",
        expect![[r#"{"metadata":{"name":"r","namespace":"ns"},"rules":[]}"#]],
    );
    check(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: ns}, immutable: false}",
        expect![[r#"{"immutable":false,"metadata":{"name":"c","namespace":"ns"}}"#]],
    );
}

#[test]
fn a_deployment_gets_all_that_a_real_server_writes() {
    check(
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: ns}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: nginx, ports: [{containerPort: 80}]}]}}}}",
        expect![[
            r#"{"metadata":{"name":"d","namespace":"ns"},"spec":{"progressDeadlineSeconds":600,"replicas":1,"revisionHistoryLimit":10,"selector":{"matchLabels":{"a":"b"}},"strategy":{"rollingUpdate":{"maxSurge":"25%","maxUnavailable":"25%"},"type":"RollingUpdate"},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"image":"nginx","imagePullPolicy":"Always","name":"c","ports":[{"containerPort":80,"protocol":"TCP"}],"resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}},"status":{}}"#
        ]],
    );
}

#[test]
fn mistakes_have_the_words_of_the_real_server() {
    check(
        "{apiVersion: v1, kind: Service, metadata: {name: Web, namespace: ns}, spec: {ports: [{port: 0}, {port: 80, name: a, protocol: tcp}]}}",
        expect![[r#"
        metadata.name: Invalid value: "Web": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
        spec.ports[0].name: Required value
        spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive
        spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive
        spec.ports[1].protocol: Unsupported value: "tcp": supported values: "SCTP", "TCP", "UDP"
        {"metadata":{"name":"Web","namespace":"ns"},"spec":{"internalTrafficPolicy":"Cluster","ports":[{"port":0,"protocol":"TCP","targetPort":0},{"name":"a","port":80,"protocol":"tcp","targetPort":80}],"sessionAffinity":"None","type":"ClusterIP"},"status":{"loadBalancer":{}}}"#]],
    );
    check(
        "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: ns}, spec: {hard: {cpus: 1, pods: 500m, requests.memory: -1Gi}}}",
        expect![[r#"
        spec.hard[cpus]: Invalid value: "cpus": must be a standard resource type or fully qualified
        spec.hard[cpus]: Invalid value: "cpus": must be a standard resource for quota
        spec.hard[pods]: Invalid value: "500m": must be an integer
        spec.hard[requests.memory]: Invalid value: "-1Gi": must be greater than or equal to 0
        {"metadata":{"name":"q","namespace":"ns"},"spec":{"hard":{"cpus":"1","pods":"500m","requests.memory":"-1Gi"}},"status":{}}"#]],
    );
    check(
        "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: p, namespace: ns}, spec: {accessModes: [Sometimes]}}",
        expect![[r#"
        spec.accessModes: Unsupported value: "Sometimes": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"
        spec.resources[storage]: Required value
        {"metadata":{"name":"p","namespace":"ns"},"spec":{"accessModes":["Sometimes"],"resources":{},"volumeMode":"Filesystem"},"status":{"phase":"Pending"}}"#]],
    );
    check(
        "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: np, namespace: ns}, spec: {podSelector: {}, ingress: [{from: [{}, {ipBlock: {cidr: 10.0.0.0/8, except: [11.0.0.0/16]}}]}]}}",
        expect![[r#"
            spec.ingress[0].from[0]: Required value: must specify a peer
            spec.ingress[0].from[1].ipBlock.except[0]: Invalid value: "11.0.0.0/16": must be a strict subset of `cidr`
            {"metadata":{"name":"np","namespace":"ns"},"spec":{"ingress":[{"from":[{},{"ipBlock":{"cidr":"10.0.0.0/8","except":["11.0.0.0/16"]}}]}],"podSelector":{},"policyTypes":["Ingress"]}}"#]],
    );
    check(
        "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: i, namespace: ns}, spec: {rules: [{host: 1.2.3.4, http: {paths: [{path: a, pathType: Prefix, backend: {}}]}}]}}",
        expect![[r#"
        spec.rules[0].host: Invalid value: "1.2.3.4": must be a DNS name, not an IP address
        spec.rules[0].http.paths[0].path: Invalid value: "a": must be an absolute path
        spec.rules[0].http.paths[0].backend: Invalid value: "": resource or service backend is required
        {"metadata":{"name":"i","namespace":"ns"},"spec":{"rules":[{"host":"1.2.3.4","http":{"paths":[{"backend":{},"path":"a","pathType":"Prefix"}]}}]},"status":{"loadBalancer":{}}}"#]],
    );
    check(
        "{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: ns}, type: kubernetes.io/tls, data: {'a/b': YQ==}}",
        expect![[r#"
        data[a/b]: Invalid value: "a/b": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')
        data[tls.crt]: Required value
        data[tls.key]: Required value
        {"data":{"a/b":"YQ=="},"metadata":{"name":"s","namespace":"ns"},"type":"kubernetes.io/tls"}"#]],
    );
    check(
        "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: a, volumeMounts: [{name: v, mountPath: /v}]}]}}",
        expect![[r#"
        metadata.namespace: Required value
        spec.containers[0].image: Required value
        spec.containers[0].volumeMounts[0].name: Not found: "v"
        {"metadata":{"name":"p"},"spec":{"containers":[{"imagePullPolicy":"Always","name":"a","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","volumeMounts":[{"mountPath":"/v","name":"v"}]}],"dnsPolicy":"ClusterFirst","enableServiceLinks":true,"restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30},"status":{"phase":"Pending","qosClass":"BestEffort"}}"#]],
    );
}

#[test]
fn bodies_that_go_cannot_read_are_refused_in_its_words() {
    check(
        "{apiVersion: v1, kind: Service, metadata: {name: a, namespace: ns}, spec: {ports: [{port: http}]}}",
        expect![
            "json: cannot unmarshal string into Go struct field ServicePort.spec.ports.port of type int32"
        ],
    );
    check(
        "{apiVersion: v1, kind: Service, metadata: {name: a, namespace: ns}, spec: {ports: x}}",
        expect![
            "json: cannot unmarshal string into Go struct field ServiceSpec.spec.ports of type []v1.ServicePort"
        ],
    );
    check(
        "{apiVersion: v1, kind: Service, metadata: {name: a, labels: {x: 1}}, spec: []}",
        expect![
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string"
        ],
    );
    check(
        "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {x: '!!'}}",
        expect!["illegal base64 data at input byte 0"],
    );
    check(
        "{apiVersion: v1, kind: ResourceQuota, metadata: {name: a}, spec: {hard: {cpu: lots}}}",
        expect![
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ],
    );
    check(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: ns}, data: {x: 'y'}, colour: red}",
        expect![[r#"
        unknown field "colour"
        {"data":{"x":"y"},"metadata":{"name":"a","namespace":"ns"}}"#]],
    );
}

#[test]
fn what_is_immutable_stays() {
    let secret = |rest: &str| format!("{{apiVersion: v1, kind: Secret, metadata: {{}}, {rest}}}");
    check_update(
        &secret("immutable: true, data: {a: YQ==}"),
        &secret("immutable: true, data: {a: Yg==}"),
        expect!["data: Forbidden: field is immutable when `immutable` is set"],
    );
    check_update(
        &secret("type: Opaque"),
        &secret("type: example.com/x"),
        expect![[r#"type: Invalid value: "example.com/x": field is immutable"#]],
    );
    let claim = |size: &str| {
        format!(
            "{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{}}, spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: {size}}}}}}}}}"
        )
    };
    check_update(
        &claim("1Gi"),
        &claim("2Gi"),
        expect![[r#"
        spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims
    "#]],
    );
    check_update(&claim("1Gi"), &claim("1024Mi"), expect![""]);
}
