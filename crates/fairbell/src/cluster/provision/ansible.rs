//! The inventory of the Ansible role: a machine for each node.

use std::fmt::Write;

use host::failure::Failure;
use host::fleet::file::{ClusterFile, NodeEntry};

use super::settings::Settings;

/// The inventory.
///
/// # Errors
/// Variables that can't be written.
pub fn inventory(file: &ClusterFile, settings: &Settings) -> Result<String, Failure> {
    let mut text = String::from(
        "# Made by `fairbell cluster provision --target ansible`.\nall:\n  children:\n    fairbell:\n",
    );
    // Writing to a string can't fail.
    let mut line = |indent: usize, key: &str, value: &str| {
        let _ = writeln!(
            text,
            "{:indent$}{key}:{}{value}",
            "",
            if value.is_empty() { "" } else { " " }
        );
    };
    let cluster =
        file.path.parent().map(|dir| std::path::absolute(dir).unwrap_or(dir.to_path_buf()));
    line(6, "vars", "");
    line(8, "fairbell_cluster_dir", &quoted(&cluster.unwrap_or_default().to_string_lossy())?);
    for (key, value) in &settings.ansible {
        line(8, key, &quoted(value)?);
    }
    line(6, "hosts", "");
    for node in &file.nodes {
        let NodeEntry { address, data_plane, duplicate_filter, ring_group, core, .. } = node;
        line(8, &node.name, "");
        line(10, "ansible_host", &quoted(address)?);
        if !data_plane.is_empty() {
            line(10, "fairbell_data_plane", &quoted(data_plane)?);
        }
        if *duplicate_filter == Some(true) {
            line(10, "fairbell_duplicate_filter", "true");
        }
        if let Some(group) = ring_group {
            line(10, "fairbell_ring_group", &quoted(group)?);
        }
        if let Some(core) = core {
            line(10, "fairbell_isolated_cores", &quoted(&core.to_string())?);
        }
    }
    Ok(text)
}

/// As JSON, which YAML reads.
fn quoted(value: &(impl serde::Serialize + ?Sized)) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| Failure::Run(error.to_string()))
}
