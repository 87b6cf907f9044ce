//! FIX sessions of the configuration: what is agreed with each counterparty.

use std::path::Path;

use exchange::{FixLogin, FixRole, FixVersion};
use fix::dictionary::{CustomTags, Dictionary, Rules};

use super::AccountEntry;
use super::keys::{CUSTOM_TAGS, FIX_ROLES, FIX_VERSIONS};

/// Largest dictionary file that is read, bytes: the largest published one has a fifth of them.
const FILE_MAX: u64 = 16 << 20;

/// A key of an account, and what is wrong with its value.
pub type Complaint = (&'static str, String);

impl AccountEntry {
    /// Its FIX session, if it has one.
    pub fn fix(&self) -> Option<FixLogin> {
        if self.fix_comp_id.is_empty() {
            return None;
        }
        let role = match self.fix_role.as_str() {
            "drop-copy" => FixRole::DropCopy,
            "market-data" => FixRole::MarketData,
            _ => FixRole::Orders,
        };
        let custom_tags = match self.fix_custom_tags.as_str() {
            "tolerated" => CustomTags::Tolerated,
            _ => CustomTags::Refused,
        };
        // Files that can't be read have stopped the start, see `fix_rules`.
        let rules = self.fix_rules().ok().flatten();
        let login = FixLogin::new(&self.fix_comp_id, self.fix_version(), role);
        Some(FixLogin { custom_tags, rules, ..login })
    }

    fn fix_version(&self) -> FixVersion {
        match self.fix_version.as_str() {
            "4.2" => FixVersion::Fix42,
            "5.0SP2" => FixVersion::Fix50Sp2,
            _ => FixVersion::Fix44,
        }
    }

    /// The dictionaries that the operator has named for the session; `None`: the exchange's own.
    ///
    /// # Errors
    /// One of two is missing, can't be read, or is not of the session's version.
    pub fn fix_rules(&self) -> Result<Option<Rules>, Complaint> {
        const WHOLE: &str = "fix_dictionary";
        const TRANSPORT: &str = "fix_transport_dictionary";
        let version = self.fix_version();
        let split = version == FixVersion::Fix50Sp2;
        match (self.fix_dictionary.as_str(), self.fix_transport_dictionary.as_str()) {
            ("", "") => Ok(None),
            (_, "") if split => Err((WHOLE, format!("{:?} needs {TRANSPORT}", self.fix_version))),
            ("", _) => Err((TRANSPORT, format!("needs {WHOLE}"))),
            (_, transport) if !split && !transport.is_empty() => {
                Err((TRANSPORT, "is for fix_version \"5.0SP2\" only".to_string()))
            }
            (whole, "") => {
                let dictionary = read(WHOLE, whole, version.begin_string())?;
                Ok(Some(Rules::single(version, dictionary)))
            }
            (application, transport) => {
                let transport = read(TRANSPORT, transport, version.begin_string())?;
                let application = read(WHOLE, application, "FIX.5.0SP2")?;
                Ok(Some(Rules::split(version, transport, application)))
            }
        }
    }
}

/// A dictionary in QuickFIX's XML format, of that name.
fn read(key: &'static str, file: &str, name: &str) -> Result<Dictionary, Complaint> {
    let wrong = |why: String| (key, format!("{file}: {why}"));
    let size = std::fs::metadata(Path::new(file)).map_err(|error| wrong(error.to_string()))?;
    if size.len() > FILE_MAX {
        return Err(wrong(format!("larger than {} MiB", FILE_MAX >> 20)));
    }
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let dictionary = Dictionary::from_xml(&text).map_err(|error| wrong(error.to_string()))?;
    match dictionary.name == name {
        true => Ok(dictionary),
        false => Err(wrong(format!("is {}, the session speaks {name}", dictionary.name))),
    }
}

pub(super) fn role_default() -> String {
    FIX_ROLES[0].to_string()
}

pub(super) fn version_default() -> String {
    FIX_VERSIONS[0].to_string()
}

pub(super) fn custom_tags_default() -> String {
    CUSTOM_TAGS[0].to_string()
}
