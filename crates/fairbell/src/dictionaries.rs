//! `fairbell fix dictionary`: the exchange's FIX dictionaries as QuickFIX's XML, for participants.
//!
//! They are what the doors judge messages by, written out: all that the exchange takes and sends.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use fix::Version;
use fix::dictionary::{Dictionary, Rules, builtin};

use host::failure::{Failure, on};

/// What `fairbell fix` is asked for.
#[derive(Subcommand, Clone, Debug)]
pub enum Fix {
    /// Write the exchange's dictionaries as XML for QuickFIX engines
    Dictionary(DictionaryArgs),
}

/// Options of `fairbell fix`.
#[derive(Args, Clone, Debug)]
pub struct FixArgs {
    /// What to do
    #[command(subcommand)]
    pub what: Fix,
}

/// Options of `fairbell fix dictionary`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    fairbell fix dictionary --out spec                  all: FIX42, FIX44, FIXT11, FIX50SP2.xml\n  \
    fairbell fix dictionary --version 5.0SP2 --out spec     FIXT11.xml and FIX50SP2.xml\n  \
    fairbell fix dictionary --version 4.4 > FIX44.xml       one on standard output\n\n\
    FIX 5.0 SP2 has two: FIXT11.xml for TransportDataDictionary, FIX50SP2.xml for\n\
    AppDataDictionary. On standard output --version T1.1 is the first, 5.0SP2 the second.")]
pub struct DictionaryArgs {
    /// Which version [default with --out: all]
    #[arg(long, value_name = "V")]
    pub version: Option<Which>,
    /// Folder of the files; made if it is not there
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// A version, or the session layer of FIX 5.0 SP2 alone.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// FIX 4.2
    #[value(name = "4.2")]
    Fix42,
    /// FIX 4.4
    #[value(name = "4.4")]
    Fix44,
    /// FIX 5.0 SP2
    #[value(name = "5.0SP2")]
    Fix50Sp2,
    /// FIXT 1.1, the session layer under it
    #[value(name = "T1.1")]
    Fixt11,
}

impl Which {
    fn version(self) -> Version {
        match self {
            Which::Fix42 => Version::Fix42,
            Which::Fix44 => Version::Fix44,
            Which::Fix50Sp2 | Which::Fixt11 => Version::Fix50Sp2,
        }
    }
}

/// Runs `fairbell fix`.
///
/// # Errors
/// When a file can't be written.
pub fn run(args: &FixArgs) -> Result<(), Failure> {
    let Fix::Dictionary(args) = &args.what;
    match (&args.out, args.version) {
        (Some(folder), None) => {
            Version::ALL.iter().try_for_each(|&version| files(folder, version, None))
        }
        (Some(folder), Some(which)) => files(folder, which.version(), Some(which)),
        (None, None) => Err(Failure::Usage("--version or --out is needed".to_string())),
        (None, Some(which)) => {
            let rules = rules(which.version())?;
            let session = which == Which::Fixt11;
            print!("{}", if session { &rules.transport } else { &rules.application });
            Ok(())
        }
    }
}

/// The exchange's own rules.
fn rules(version: Version) -> Result<Rules, Failure> {
    builtin(version).map_err(|error| Failure::Run(error.to_string()))
}

/// The files of a version; the session layer's alone where that is asked for.
fn files(folder: &Path, version: Version, which: Option<Which>) -> Result<(), Failure> {
    let rules = rules(version)?;
    std::fs::create_dir_all(folder).map_err(|error| on(folder, error))?;
    let mut all: Vec<&Dictionary> = vec![&rules.transport];
    if version == Version::Fix50Sp2 && which != Some(Which::Fixt11) {
        all.push(&rules.application);
    }
    for dictionary in all {
        let path = folder.join(format!("{}.xml", dictionary.name.replace('.', "")));
        std::fs::write(&path, dictionary.to_string()).map_err(|error| on(&path, error))?;
        println!("{}", path.display());
    }
    Ok(())
}
