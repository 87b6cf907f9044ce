#!/usr/bin/env python3
"""Tests of the chart, on what Helm makes of it. Each says what it is about; ends with 1 if one fails.

    test.py CLUSTER_KEYS     the folder keys of a venue of `fairbell cluster init`
"""

import json
import sys
from pathlib import Path

import chart
import yaml

CHART = Path(__file__).resolve().parent / "fairbell"
KEYS = Path(sys.argv[1])


def render(*settings):
    """Objects by (kind, name), of settings like `roles.root.replicas=5`, a path and JSON."""
    values = {}
    for setting in settings:
        path, value = setting.split("=", 1)
        at = values
        for name in path.split(".")[:-1]:
            at = at.setdefault(name, {})
        at[path.split(".")[-1]] = json.loads(value)
    objects = [one for one in yaml.safe_load_all(chart.template(CHART, values)) if one]
    named = {(one["kind"], one["metadata"]["name"]): one for one in objects}
    assert len(named) == len(objects), "two objects of one name"
    return named


def pod(objects, role):
    return objects["StatefulSet", role]["spec"]["template"]["spec"]


def names_are_those_of_the_cluster_file():
    objects = render()
    for role, count in (("root", 3), ("proxy", 2), ("edge", 4), ("standby", 1)):
        spec = objects["StatefulSet", role]["spec"]
        assert (spec["replicas"], spec["ordinals"]["start"]) == (count, 1), role
        args = pod(objects, role)["containers"][0]["args"]
        assert args[args.index("--name") + 1] == "$(NODE)", args
    assert objects["Service", "nodes"]["spec"]["clusterIP"] == "None"
    assert objects["Service", "nodes"]["spec"]["publishNotReadyAddresses"] is True
    assert {one["metadata"]["namespace"] for one in objects.values()} == {"lab"}


def keys_that_are_mounted_are_those_that_init_writes():
    objects = render()
    for role in ("root", "proxy", "edge", "standby"):
        volumes = {volume["name"]: volume for volume in pod(objects, role)["volumes"]}
        for source in volumes["keys"]["projected"]["sources"]:
            name = source["secret"]["name"].removeprefix("fairbell-keys-")
            items = {item["key"]: item["path"] for item in source["secret"]["items"]}
            written = {path.name for path in (KEYS / name).iterdir()}
            assert set(items) == written, (name, set(items) ^ written)
            assert set(items.values()) == {f"{name}/{file}" for file in written}, items
        mounts = {mount["name"]: mount for mount in pod(objects, role)["containers"][0]["volumeMounts"]}
        assert mounts["keys"]["subPathExpr"] == "$(NODE)", "a pod sees other nodes' keys"


def no_rights_but_those_of_a_data_plane():
    objects = render('roles.proxy.dataPlane=["tc-clone","udp"]', 'roles.edge.dataPlane=["af_xdp","udp"]')
    expected = {"root": None, "standby": None, "proxy": ["BPF", "PERFMON", "NET_ADMIN"], "edge": ["NET_RAW"]}
    for role, rights in expected.items():
        spec = pod(objects, role)
        own = spec["containers"][0]["securityContext"]
        assert own["capabilities"]["drop"] == ["ALL"] and own["capabilities"].get("add") == rights, (role, own)
        assert own["readOnlyRootFilesystem"] and not own["allowPrivilegeEscalation"] and not own["privileged"], role
        assert spec["securityContext"]["runAsNonRoot"] is (rights is None), role
        assert spec["securityContext"]["runAsUser"] == (10001 if rights is None else 0), role
        assert spec["automountServiceAccountToken"] is False, role


def on_the_machines_network_no_machine_has_two_nodes():
    for own, objects in ((True, render("hostNetwork=true")), (False, render())):
        for role in ("root", "proxy", "edge", "standby"):
            spec = pod(objects, role)
            assert spec.get("hostNetwork", False) is own, role
            term = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
            assert ("fairbell/role" not in term["labelSelector"]["matchLabels"]) is own, role
            assert all(("hostPort" in port) is own for port in spec["containers"][0]["ports"]), role
            assert spec.get("dnsPolicy") == ("ClusterFirstWithHostNet" if own else None), role


def disks_of_roots_outlive_them_and_budgets_keep_a_majority():
    objects = render("roles.root.replicas=5")
    spec = objects["StatefulSet", "root"]["spec"]
    assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    assert spec["updateStrategy"] == {"type": "OnDelete"}
    assert [claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]] == ["state"]
    budget = objects["PodDisruptionBudget", "root"]["spec"]
    assert budget["maxUnavailable"] == 1 and budget["unhealthyPodEvictionPolicy"] == "IfHealthyBudget"
    assert ("PodDisruptionBudget", "standby") not in objects
    assert ("PodDisruptionBudget", "root") not in render("roles.root.replicas=1")
    # A liveness probe would end a root that recovers a long log.
    assert "livenessProbe" not in pod(objects, "root")["containers"][0]


def ports_follow_the_first_one():
    objects = render("port=9000")
    ports = {port["name"]: port["containerPort"] for port in pod(objects, "edge")["containers"][0]["ports"]}
    assert (ports["ouch"], ports["fix"], ports["web"], ports["subscribe"]) == (9010, 9011, 9013, 9014), ports
    assert all(len(name) <= 15 for name in ports)
    assert [port["port"] for port in objects["Service", "edges"]["spec"]["ports"]] == [9010, 9011, 9013, 9014]
    policy = objects["NetworkPolicy", "edge"]["spec"]["ingress"][1]
    assert [port["port"] for port in policy["ports"]] == [9010, 9011, 9012, 9013, 9014], policy


def rules_of_the_operator_stand_beside_those_of_the_venue():
    store = {"to": [{"ipBlock": {"cidr": "10.0.7.0/24"}}], "ports": [{"port": 5432, "protocol": "TCP"}]}
    metrics = {"from": [{"namespaceSelector": {}}], "ports": [{"port": 9100, "protocol": "TCP"}]}
    plain = render()
    objects = render(f"networkPolicy.egress={json.dumps([store])}", f"networkPolicy.ingress={json.dumps([metrics])}")
    for role in ("root", "proxy", "standby", "edge"):
        of, before = objects["NetworkPolicy", role]["spec"], plain["NetworkPolicy", role]["spec"]
        assert of["egress"] == [store, *before["egress"]], role
        assert of["ingress"] == [*before["ingress"], metrics], role


def strangers_reach_edges_doors_and_the_retransmission_server_alone():
    objects = render()
    for role, doors in (("root", 1), ("proxy", 0), ("standby", 0), ("edge", 1)):
        rules = objects["NetworkPolicy", role]["spec"]["ingress"]
        assert sum("from" not in rule for rule in rules) == doors, role
        assert all("ports" in rule for rule in rules if "from" not in rule), role
    limited = render('service.from=[{"ipBlock":{"cidr":"10.0.0.0/8"}}]')
    assert all("from" in rule for rule in limited["NetworkPolicy", "edge"]["spec"]["ingress"])
    assert not [one for one in render("networkPolicy.enabled=false") if one[0] == "NetworkPolicy"]


def shards_have_roots_and_ports_of_their_own():
    objects = render("shards=2", "roles.root.replicas=6")
    sources = next(volume for volume in pod(objects, "root")["volumes"] if volume["name"] == "keys")["projected"]["sources"]
    names = [{item["key"] for item in source["secret"]["items"]} for source in sources]
    assert len(names) == 6 and "replica-1.pem" in names[3] and "replica-3.pem" in names[5], names
    ports = {role: {port["name"]: port["containerPort"] for port in pod(objects, role)["containers"][0]["ports"]}
             for role in ("root", "proxy", "edge")}
    assert (ports["root"]["shards"], ports["proxy"]["overlay-2"], ports["edge"]["overlay-2"]) == (7003, 7016, 7017), ports
    assert "shards" not in {port["name"] for port in pod(render(), "root")["containers"][0]["ports"]}


def a_root_may_set_the_number_of_edges_and_nothing_else():
    objects = render("scale.enabled=true", "roles.edge.most=9")
    assert "replicas" not in objects["StatefulSet", "edge"]["spec"], "an upgrade would undo what was scaled"
    assert objects["StatefulSet", "proxy"]["spec"]["replicas"] == 2
    sources = next(volume for volume in pod(objects, "edge")["volumes"] if volume["name"] == "keys")["projected"]["sources"]
    assert len(sources) == 9, "keys of all edges that may be"
    rules = objects["Role", "venue-root"]["rules"]
    assert rules == [{"apiGroups": ["apps"], "resources": ["statefulsets/scale"], "resourceNames": ["edge"],
                      "verbs": ["get", "patch"]}], rules
    steers = {role: pod(objects, role)["automountServiceAccountToken"] for role in ("root", "proxy", "edge", "standby")}
    assert steers == {"root": True, "proxy": False, "edge": False, "standby": False}, steers
    assert pod(objects, "root")["serviceAccountName"] == "venue-root"
    assert not [one for one in render() if one[0] in ("Role", "ServiceAccount")]


def settings_that_make_no_venue_are_refused():
    for wrong in ("roles.root.replicas=2", "shards=2", "shards=17", "port=80", 'roles.edge.dataPlane=["dpdk"]', 'roles.edge.dataPlane=[]',
                  'image.digest="latest"', "replicas=3", 'service.type="Ingress"', "roles.root.storage=null"):
        try:
            render(wrong)
        except ValueError:
            continue
        raise AssertionError(f"{wrong} is not refused")


def main():
    tests = [test for name, test in globals().items()
             if callable(test) and test.__module__ == __name__ and name not in ("render", "pod", "main", "Path")]
    failed = 0
    for test in tests:
        try:
            test()
        except (AssertionError, KeyError, ValueError) as error:
            failed += 1
            print(f"{test.__name__}: {type(error).__name__}: {error}")
    print(f"helm: {len(tests) - failed} passed, {failed} failed")
    sys.exit(bool(failed) or len(tests) < 10)


main()
