//! Commands of `fairbell cluster` for the groups of roots of all shards.

use serde_json::{Value, json};

use host::failure::Failure;
use host::fleet::file::ClusterFile;
use host::fleet::messages::Operation;

use super::{At, PATIENCE, StatusArgs, operator};

/// The file as the shard has it that an operator names, or as the first.
///
/// # Errors
/// No such shard.
pub fn one(at: &At, name: Option<&str>) -> Result<ClusterFile, Failure> {
    let file = ClusterFile::read(&at.cluster)?;
    match name {
        Some(name) => file.named_shard(name),
        None => Ok(file),
    }
}

/// Has an operation done by the roots of each shard, one shard after the other: a node's start, its keys
/// and its certificate are in the log of each. What the last one answered, with lines of all.
///
/// # Errors
/// Those of the first shard whose roots don't do it; the ones before have, and doing it again does no harm.
pub fn operate_all(file: &ClusterFile, operation: &Operation) -> Result<(String, Value), Failure> {
    let (mut lines, mut last) = (Vec::new(), Value::Null);
    for of in file.all_shards() {
        let done = operator(&of)?.operate(operation, PATIENCE);
        if file.shard_count() == 1 {
            return done;
        }
        let name = of.shard_name();
        let (text, data) = done.map_err(|why| {
            let before = match lines.is_empty() {
                true => String::new(),
                false => {
                    "; the shards before have done it: again when this one is there".to_string()
                }
            };
            Failure::Run(format!("shard {name}: {why}{before}"))
        })?;
        lines.push(format!("shard {name}: {text}"));
        last = merged(last, data);
    }
    Ok((lines.join("\n"), last))
}

/// Of two answers the later one, with the larger generation that is refused.
fn merged(before: Value, mut after: Value) -> Value {
    let refused = |of: &Value| of["revoked"].as_u64();
    if let Some(most) = refused(&before).max(refused(&after)) {
        after["revoked"] = most.into();
    }
    after
}

/// Says how all nodes are, as the roots of each shard have it.
///
/// # Errors
/// A shard of which no root answers; the others are told first.
pub fn status(args: &StatusArgs) -> Result<(), Failure> {
    let file = ClusterFile::read(&args.at.cluster)?;
    let (mut rows, mut silent) = (Vec::new(), Vec::new());
    for of in file.all_shards() {
        let told = operator(&of)?.operate(&Operation::Status, PATIENCE);
        if file.shard_count() == 1 {
            let (text, data) = told?;
            match args.json {
                true => println!("{data}"),
                false => println!("{text}"),
            }
            return Ok(());
        }
        let name = of.shard_name();
        let symbols = of.shards[usize::from(of.shard().0)].symbols.join(" ");
        match told {
            Ok((_, mut data)) if args.json => {
                data["shard"] = json!(name);
                rows.push(data);
            }
            Ok((text, _)) => println!("shard {name}: {symbols}\n{text}\n"),
            Err(why) => {
                match args.json {
                    true => rows.push(json!({ "shard": name, "error": why.to_string() })),
                    false => println!("shard {name}: {symbols}\n{why}\n"),
                }
                silent.push(name);
            }
        }
    }
    if args.json {
        println!("{}", json!({ "shards": rows }));
    }
    match silent.is_empty() {
        true => Ok(()),
        false => Err(Failure::Run(format!("no answer of shard {}", silent.join(", ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_the_most_that_any_shard_refuses() {
        let of = |revoked: u64| json!({ "revoked": revoked, "key_epoch": 2 });
        assert_eq!(merged(of(7), of(3)), of(7));
        assert_eq!(merged(Value::Null, of(3)), of(3));
        assert_eq!(merged(Value::Null, json!({ "key_epoch": 1 })), json!({ "key_epoch": 1 }));
    }
}
