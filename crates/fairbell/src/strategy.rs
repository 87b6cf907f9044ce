//! `fairbell strategy`: keys of participants' programs, their signatures, and whether they would run.

use std::path::{Path, PathBuf};

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use host::config::{Config, StrategyEntry};
use host::failure::{Failure, on};
use host::strategies::{Around, Code};
use host::{config, files, strategies};
use strategy::enclave::attestation::measure;
use strategy::enclave::attestor::Attestor;
use strategy::signature;

/// Options of `fairbell strategy`.
#[derive(Args, Clone, Debug)]
pub struct StrategyArgs {
    /// What to do
    #[command(subcommand)]
    pub what: What,
}

/// What is done.
#[derive(Subcommand, Clone, Debug)]
pub enum What {
    /// Make a private key and print its public key
    #[command(after_help = "Examples:\n  \
        fairbell strategy key guest.key      the public key is for `key` of [[strategy]]")]
    Key(KeyArgs),
    /// Sign a module, or a program for an enclave, for an account
    #[command(after_help = "Examples:\n  \
        fairbell strategy sign maker.wasm --account GUEST --key guest.key\n\n\
        Writes maker.wasm.sig beside the module and prints the lines for the configuration.")]
    Sign(SignArgs),
    /// Make the key and the certificate by which a machine attests its own enclaves, for development
    #[command(after_help = "Examples:\n  \
        fairbell strategy attestor attestor.key    the certificate is attestor.key.pem")]
    Attestor(KeyArgs),
    /// Check what a configuration says of strategies: signatures, modules, and that they start
    #[command(after_help = "Examples:\n  \
        fairbell strategy check                        those of fairbell.toml\n  \
        fairbell strategy check --config venue.toml\n  \
        fairbell strategy check --module maker.wasm --settings lots=2    a module that nobody has signed yet")]
    Check(CheckArgs),
}

/// Options of `fairbell strategy key`.
#[derive(Args, Clone, Debug)]
pub struct KeyArgs {
    /// File of the private key; there must be none yet
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// Options of `fairbell strategy sign`.
#[derive(Args, Clone, Debug)]
pub struct SignArgs {
    /// The module
    #[arg(value_name = "MODULE")]
    pub module: PathBuf,
    /// User name of the account that runs it
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub account: String,
    /// File of the private key
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// The venue's configuration, or its cluster.toml, which has to know the account [default: fairbell.toml
    /// when it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Sign it whatever it is and for whomever, also what no exchange would run under the usual limits
    #[arg(long)]
    pub unchecked: bool,
}

/// Options of `fairbell strategy check`.
#[derive(Args, Clone, Debug)]
pub struct CheckArgs {
    /// The venue's configuration, or its cluster.toml [default: fairbell.toml when it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// This module under the usual limits, signed or not, in place of the configuration's strategies
    #[arg(long, value_name = "FILE")]
    pub module: Option<PathBuf>,
    /// What it is told at its start
    #[arg(long, value_name = "TEXT", default_value = "", requires = "module")]
    pub settings: String,
}

/// What programs for enclaves begin with.
const ELF: &[u8] = b"\x7fELF";

/// Does it.
///
/// # Errors
/// Files can't be read or written; a signature or a module is not right.
pub fn run(args: &StrategyArgs) -> Result<(), Failure> {
    match &args.what {
        What::Key(args) => key(&args.file),
        What::Attestor(args) => attestor(&args.file),
        What::Sign(args) => sign(args),
        What::Check(args) => check(args),
    }
}

fn key(file: &Path) -> Result<(), Failure> {
    if file.exists() {
        return Err(Failure::Usage(format!("{}: is there already", file.display())));
    }
    let (private, public) = signature::new_key().map_err(|error| on(file, error))?;
    files::write(file, private + "\n").map_err(|error| on(file, error))?;
    println!("key = \"{public}\"");
    Ok(())
}

fn sign(args: &SignArgs) -> Result<(), Failure> {
    let read = |path: &Path| std::fs::read(path).map_err(|error| on(path, error));
    let (module, private) = (read(&args.module)?, read(&args.key)?);
    if !args.unchecked {
        runnable(&args.module, &module)?;
        known(&args.account, args.config.as_deref())?;
    }
    let private = String::from_utf8_lossy(&private);
    let signed = signature::sign(&private, &args.account, &module);
    let signed = signed.map_err(|error| on(&args.key, error))?;
    let public = signature::public_key(&private).map_err(|error| on(&args.key, error))?;
    let path = PathBuf::from(format!("{}.sig", args.module.display()));
    files::write(&path, signed + "\n").map_err(|error| on(&path, error))?;
    println!(
        "[[strategy]]\naccount = \"{}\"\nmodule = \"{}\"\nkey = \"{public}\"",
        args.account,
        args.module.display()
    );
    if module.starts_with(ELF) {
        println!("measurement = \"{}\"", signature::hex(&measure(&module)));
        println!("module_kib = {}", module.len().div_ceil(1 << 10));
    }
    Ok(())
}

/// Whether a configuration has an account, if there is one at hand.
fn known(account: &str, config: Option<&Path>) -> Result<(), Failure> {
    let usual = Path::new(config::CONFIG_FILE);
    let Some(path) = config.or(Some(usual).filter(|path| path.exists())) else { return Ok(()) };
    let config = host::fleet::shards::settings(Some(path))?;
    if config.accounts.0.iter().any(|one| one.username == account) {
        return Ok(());
    }
    let why = format!(
        "--account: {account:?} is no [[account]] of {}: nothing was signed (--config names another \
         configuration)",
        path.display()
    );
    Err(Failure::Usage(why))
}

/// Whether a file is a module that a cage takes under the usual limits, or a program for an enclave.
fn runnable(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let wrong = |why: &dyn std::fmt::Display| {
        on(path, format!("{why}: nothing was signed (--unchecked signs it all the same)"))
    };
    if bytes.starts_with(ELF) {
        return Ok(());
    }
    if !bytes.starts_with(b"\0asm") {
        return Err(wrong(&"neither a WebAssembly module nor a program for an enclave"));
    }
    let limits = StrategyEntry::default().limits();
    let module = strategy::Module::new("module", bytes, &limits);
    module
        .and_then(|module| strategy::Cage::new(&module, "", &limits))
        .map_err(|why| wrong(&why))?;
    Ok(())
}

fn attestor(file: &Path) -> Result<(), Failure> {
    let certificate = PathBuf::from(format!("{}.pem", file.display()));
    if let Some(there) = [file, &certificate].into_iter().find(|path| path.exists()) {
        return Err(Failure::Usage(format!("{}: is there already", there.display())));
    }
    let now = net::Clock::start(0).now();
    let (key, root) = Attestor::root(now).map_err(|error| on(file, error))?;
    files::write(file, key).map_err(|error| on(file, error))?;
    files::write(&certificate, root).map_err(|error| on(&certificate, error))?;
    println!("[enclaves]\nroot = \"{}\"\nattestor = \"{}\"", certificate.display(), file.display());
    Ok(())
}

fn check(args: &CheckArgs) -> Result<(), Failure> {
    let config = host::fleet::shards::settings(args.config.as_deref())?;
    let around = Around::new(&config, net::Clock::start(0))?;
    if let Some(path) = &args.module {
        let entry = StrategyEntry {
            module: path.display().to_string(),
            settings: args.settings.clone(),
            ..StrategyEntry::default()
        };
        let bytes = std::fs::read(path).map_err(|error| on(path, error))?;
        let module = strategy::Module::new("module", &bytes, &entry.limits());
        let code = Code::Module(module.map_err(|error| on(path, error))?);
        return started((&config, &around), &code, &entry, &bytes);
    }
    if config.strategies.0.is_empty() {
        return Err(Failure::Usage("the configuration has no [[strategy]]".to_string()));
    }
    for entry in &config.strategies.0 {
        let code = strategies::code(entry)?;
        let path = Path::new(&entry.module);
        let bytes = std::fs::read(path).map_err(|error| on(path, error))?;
        started((&config, &around), &code, entry, &bytes)?;
    }
    Ok(())
}

/// Starts a strategy and says so.
fn started(
    (config, around): (&Config, &Around),
    code: &Code,
    entry: &StrategyEntry,
    bytes: &[u8],
) -> Result<(), Failure> {
    let of = strategies::start(code, entry, (&config.instruments(), around))?;
    let account = match entry.account.as_str() {
        "" => String::new(),
        account => format!(", signed for {account}"),
    };
    println!(
        "{}: {} bytes, SHA-256 {}{account}; starts with {}",
        entry.module,
        bytes.len(),
        signature::digest(bytes),
        of.how
    );
    Ok(())
}
