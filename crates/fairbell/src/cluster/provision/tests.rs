//! What the files of each target have to say, and what is refused.

use std::path::Path;

use host::fleet::file::{NodeEntry, NodeRole};

use super::*;

fn venue(address: impl Fn(&str) -> String) -> ClusterFile {
    let mut nodes = Vec::new();
    for (role, word, count) in [
        (NodeRole::Root, "root", 3),
        (NodeRole::Proxy, "proxy", 2),
        (NodeRole::Edge, "edge", 4),
        (NodeRole::Standby, "standby", 1),
    ] {
        nodes.extend((1..=count).map(|number| {
            let name = format!("{word}-{number}");
            NodeEntry {
                zone: if number % 2 == 0 { "b".to_string() } else { "a".to_string() },
                ..NodeEntry::new(name.clone(), address(&name), vec![role])
            }
        }));
    }
    let path = Path::new("some/cluster.toml");
    let mut file = ClusterFile::new(path, "lab", types::Nanos(1 << 60), nodes).expect("a file");
    file.scale.by = "command".to_string();
    file.scale.least = 2;
    file
}

fn named() -> ClusterFile {
    venue(|name| format!("{name}.fairbell.internal"))
}

fn settings() -> Settings {
    let text = "[aws]\nparticipants = [\"203.0.113.0/24\"]\n[[aws.zone]]\nname = \"a\"\naz = \"eu-central-1a\"\n\
                subnet = \"10.20.0.0/20\"\n[[aws.zone]]\nname = \"b\"\naz = \"eu-central-1b\"\nsubnet = \"10.20.16.0/20\"\n";
    toml::from_str(text).expect("settings")
}

fn kinds(template: &Value, kind: &str) -> Vec<(String, Value)> {
    let all = template["Resources"].as_object().expect("resources");
    let of = all.iter().filter(|(_, of)| of["Type"] == kind);
    of.map(|(id, of)| (id.clone(), of["Properties"].clone())).collect()
}

/// Every `Ref`, `Fn::GetAtt` and `${...}` of a value.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, of) in fields {
                match (&key[..], of) {
                    ("Ref", Value::String(id)) => found.push(id.clone()),
                    ("Fn::GetAtt", Value::Array(parts)) => {
                        found.extend(parts.first().and_then(Value::as_str).map(String::from));
                    }
                    ("Fn::Sub", Value::String(text)) => {
                        found.extend(
                            text.split("${")
                                .skip(1)
                                .map(|rest| rest.split('}').next().unwrap_or_default().to_string()),
                        );
                    }
                    _ => references(of, found),
                }
            }
        }
        Value::Array(all) => all.iter().for_each(|of| references(of, found)),
        _ => {}
    }
}

#[test]
fn a_fleet_of_amazon_s_has_every_node_and_names_nothing_that_is_not_there() {
    let template = aws::template(&named(), &settings()).expect("a template");
    assert_eq!(
        kinds(&template, "AWS::EC2::Instance").len(),
        6,
        "roots, proxies, one that stands by"
    );
    let groups = kinds(&template, "AWS::AutoScaling::AutoScalingGroup");
    let wanted: Vec<&str> =
        groups.iter().filter_map(|(_, of)| of["DesiredCapacity"].as_str()).collect();
    assert_eq!(wanted, ["1", "1", "0", "0"], "two edges at first");
    assert!(groups.iter().all(|(_, of)| of["MinSize"] == "0" && of["MaxSize"] == "1"));
    // Each machine may read its own secret alone.
    for (id, role) in kinds(&template, "AWS::IAM::Role") {
        let own = id.replace("Role", "Keys");
        let policies = role["Policies"].to_string();
        assert!(policies.contains(&format!("{{\"Ref\":\"{own}\"}}")), "{id}");
        assert_eq!(policies.matches("Keys\"}").count(), 1, "{id}: {policies}");
    }
    // Logs outlive the stack.
    let all = template["Resources"].as_object().expect("resources");
    let disks: Vec<_> = all.values().filter(|of| of["Type"] == "AWS::EC2::Volume").collect();
    assert!(disks.len() == 3 && disks.iter().all(|of| of["DeletionPolicy"] == "Retain"));
    let mut found = Vec::new();
    references(&template, &mut found);
    assert!(found.len() > 100);
    for id in found {
        let known = all.contains_key(&id) || id == "Image" || id.starts_with("AWS::");
        assert!(known, "{id} is nowhere");
    }
}

#[test]
fn what_can_not_be_is_refused_with_the_node_and_the_reason() {
    let why = |file: &ClusterFile, settings: &Settings| {
        aws::template(file, settings).expect_err("refused").to_string()
    };
    let said = why(&named(), &Settings::default());
    assert!(said.starts_with("some/provision.toml: is not there: write it"), "{said}");
    assert!(said.contains("[[aws.zone]]") && said.contains("zone \"a\" of root-1"), "{said}");
    let mut read = Settings { path: Some("other.toml".into()), ..settings() };
    let mut homeless = named();
    homeless.nodes[1].zone.clear();
    homeless.nodes[0].zone.clear();
    let said = why(&homeless, &Settings::default());
    assert!(said.contains("where name is \"\" for root-1 and whoever else"), "{said}");
    homeless.nodes[0].zone = "a".to_string();
    let said = why(&homeless, &read);
    assert!(said.starts_with("some/cluster.toml: root-2 has no zone: write zone = NAME"), "{said}");
    assert!(said.contains("[[aws.zone]] of other.toml (\"a\", \"b\")"), "{said}");
    read.aws.zone.pop();
    let said = why(&named(), &read);
    assert!(said.starts_with("other.toml: has no zone \"b\", which root-2 of some/"), "{said}");
    let said = why(&venue(|name| name.to_string()), &settings());
    assert!(said.contains("root-1.fairbell.internal"), "{said}");
    let mut fixed = named();
    (1..)
        .zip(&mut fixed.nodes)
        .for_each(|(number, node)| node.address = format!("10.20.0.{number}"));
    let said = why(&fixed, &settings());
    assert!(said.contains("edge-1: edges that come and go have names"), "{said}");
    // Control: those that stay have addresses, and are instances.
    fixed.scale.by.clear();
    let template = aws::template(&fixed, &settings()).expect("a template");
    assert_eq!(kinds(&template, "AWS::EC2::Instance").len(), 10);
    let mut odd = named();
    odd.nodes[3].name = "relay".to_string();
    let said = kubernetes::chart(&odd, &Settings::default()).expect_err("no pod").to_string();
    assert!(said.contains("relay: pods of this role are named proxy-1"), "{said}");
    let mut planes = named();
    planes.nodes[5].data_plane = vec!["tc-clone".to_string()];
    assert!(kubernetes::chart(&planes, &Settings::default()).is_err(), "one pod template a role");
}

#[test]
fn values_inventory_and_variables_have_every_node() {
    let mut file = named();
    file.scale.by = "kubernetes".to_string();
    let (values, script) = kubernetes::chart(&file, &Settings::default()).expect("values");
    assert_eq!(values["roles"]["edge"]["replicas"], 2);
    assert_eq!(values["roles"]["edge"]["most"], 4);
    assert_eq!(
        (&values["roles"]["root"]["replicas"], &values["scale"]["enabled"]),
        (&3.into(), &true.into())
    );
    assert!(file.nodes.iter().all(|node| script.contains(&node.name)));
    file.nodes[6].core = Some(3);
    let text = ansible::inventory(&file, &Settings::default()).expect("an inventory");
    assert!(file.nodes.iter().all(|node| text.contains(&format!("        {}:\n", node.name))));
    assert!(text.contains("fairbell_isolated_cores: \"3\""), "{text}");
    let variables = aws::variables(&file, &settings()).expect("variables");
    let nodes = variables["nodes"].as_object().expect("nodes");
    assert_eq!(nodes.len(), 10);
    assert_eq!(nodes["edge-3"]["wanted"], false);
    assert_eq!(variables["subnets"]["eu-central-1b"], "10.20.16.0/20");
}
