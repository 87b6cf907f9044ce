//! A participant's module at an edge of a box: signed for an account that nobody else plays, and told once more what it heard.

use std::path::{Path, PathBuf};

use host::failure::{Failure, on};
use host::fleet::file::NodeRole;
use serde_json::Value;
use strategy::signature;

use super::site::Site;
use crate::backtest;
use crate::drill::Told;

/// Its account.
const ACCOUNT: &str = "GUEST";
/// Its record, in the folder of the edge.
const RECORD: &str = "strategy.heard";

/// A module that was signed.
pub struct Played {
    module: PathBuf,
    settings: String,
    key: String,
}

impl Played {
    /// Copies a module into a folder and signs it there by a new key.
    ///
    /// # Errors
    /// It can't be read, or the folder not written.
    pub fn new(module: &Path, settings: &str, dir: &Path) -> Result<Played, Failure> {
        host::files::folder(dir)?;
        let bytes = std::fs::read(module).map_err(|error| on(module, error))?;
        let failed = |error: signature::SignatureError| on(module, error);
        let (private, key) = signature::new_key().map_err(failed)?;
        let signed = signature::sign(&private, ACCOUNT, &bytes).map_err(failed)?;
        let copy = dir.join("strategy.wasm");
        let copied = std::fs::write(&copy, &bytes);
        let copied = copied.and_then(|()| std::fs::write(dir.join("strategy.wasm.sig"), signed));
        copied.map_err(|error| on(&copy, error))?;
        Ok(Played { module: copy, settings: settings.to_string(), key })
    }

    /// The lines of the venue's settings by which it runs at an edge, by its number from 1.
    pub fn lines(&self, edge: u32) -> String {
        let Played { module, settings, key } = self;
        format!(
            "\n[[strategy]]\naccount = \"{ACCOUNT}\"\nmodule = {:?}\nkey = \"{key}\"\nsettings = {settings:?}\n\
             edge = {edge}\nrecord = \"{RECORD}\"\n",
            module.display().to_string()
        )
    }

    /// What it asks for when it is told the record of the last edge, and what is wrong with that or with
    /// what the `log` says to it.
    ///
    /// # Errors
    /// There is no record.
    pub fn again(&self, site: &Site<'_>, log: &Told) -> Result<(Value, Option<String>), Failure> {
        let edge = site.places(NodeRole::Edge).last().copied().unwrap_or(0);
        let file = site.folder(edge).join(RECORD);
        let bytes = std::fs::read(&file).map_err(|error| on(&file, error))?;
        let replayed = backtest::again((&file, &bytes), &self.module, &self.settings)?;
        let entered = log.accepted + log.rejected;
        let complaint = if !replayed.is_equal() {
            Some("strategy: its requests are not those of its record".to_string())
        } else if entered == 0 || entered > replayed.orders {
            let orders = replayed.orders;
            Some(format!("strategy: the log has {entered} orders of it, and it asked for {orders}"))
        } else {
            None
        };
        Ok((backtest::replayed_json(&replayed), complaint))
    }
}
