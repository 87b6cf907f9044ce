//! Values of the Helm chart, and the commands that put a venue's files where its pods find them.

use host::failure::Failure;
use host::fleet::file::{ClusterFile, NodeRole, Port};
use serde_json::{Value, json};

use super::settings::{Settings, counted};

/// The values, JSON (which Helm reads as YAML), and a script for `sh`.
///
/// # Errors
/// Nodes that no pod can be; other data planes by node of one role.
pub fn chart(file: &ClusterFile, settings: &Settings) -> Result<(Value, String), Failure> {
    let wrong = |why: String| Failure::Usage(format!("{}: {why}", file.path.display()));
    let roles = [
        (NodeRole::Root, "root"),
        (NodeRole::Proxy, "proxy"),
        (NodeRole::Standby, "standby"),
        (NodeRole::Edge, "edge"),
    ];
    let mut all = serde_json::Map::new();
    for (role, word) in roles {
        let count = counted(file, role, word)?;
        let planes: Vec<&Vec<String>> =
            file.nodes.iter().filter(|node| node.is(role)).map(|node| &node.data_plane).collect();
        if planes.windows(2).any(|pair| pair[0] != pair[1]) {
            return Err(wrong(format!("data_plane: pods of the role {word} have the same")));
        }
        let edges = role == NodeRole::Edge && !file.scale.by.is_empty();
        let replicas = if edges { usize::from(file.scale.least) } else { count };
        let mut of = json!({ "replicas": replicas });
        if edges {
            of["most"] = json!(count);
        }
        if let Some(planes) = planes.first().filter(|planes| !planes.is_empty()) {
            of["dataPlane"] = json!(planes);
        }
        if role == NodeRole::Root {
            of["storage"] = json!({ "size": settings.kubernetes.journal });
        }
        all.insert(word.to_string(), of);
    }
    let others = [NodeRole::Learner, NodeRole::Reserve];
    if let Some(node) = file.nodes.iter().find(|node| others.iter().any(|role| node.is(*role))) {
        return Err(wrong(format!("{}: the chart has no learners and no reserve", node.name)));
    }
    let mut ports = file.nodes.iter().map(|node| file.number(node, Port::Root));
    let first = ports.next().unwrap_or(0);
    if ports.any(|port| port != first) {
        return Err(wrong(
            "port: pods have addresses of their own, and one first port".to_string(),
        ));
    }
    let values = json!({
        "image": { "repository": settings.kubernetes.image, "tag": settings.kubernetes.tag },
        "hostNetwork": settings.kubernetes.host_network,
        "port": first,
        "shards": file.shard_count(),
        "roles": all,
        "scale": { "enabled": file.scale.by == "kubernetes" },
    });
    let namespace = &file.name.to_lowercase();
    let names: Vec<&str> = file.nodes.iter().map(|node| &node.name[..]).collect();
    let script = format!(
        "#!/bin/sh\n# Made by `fairbell cluster provision --target k8s`: the venue's files and keys, then the chart.\n\
         # install.sh FOLDER CHART      FOLDER: that of cluster.toml; CHART: deploy/helm/fairbell\n\
         set -eu\nfolder=$1 chart=$2\nkubectl create namespace {namespace} --dry-run=client -o yaml | kubectl apply -f -\n\
         kubectl -n {namespace} create secret generic fairbell --from-file=\"$folder/cluster.toml\" \\\n    \
         --from-file=\"$folder/venue.toml\" --from-file=\"$folder/authority.pem\" \\\n    \
         --dry-run=client -o yaml | kubectl apply -f -\nfor node in {}; do\n    \
         kubectl -n {namespace} create secret generic \"fairbell-keys-$node\" --from-file=\"$folder/keys/$node\" \\\n        \
         --dry-run=client -o yaml | kubectl apply -f -\ndone\n\
         helm upgrade --install venue \"$chart\" --namespace {namespace} --values \"$(dirname \"$0\")/values.json\"\n",
        names.join(" ")
    );
    Ok((values, script))
}
