//! Decoders for templates that are known before anything runs: FAST for OPRA, version 2, read by the
//! templates of FAST 1.1 that describe it, and one with fields of all kinds for the tests.

use std::path::Path;

use fast::opra::{V2, fast_templates};
use fast::slots::Description;

fn main() {
    const RICH: &str = "tests/templates/rich.xml";
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={RICH}");
    let folder = std::env::var_os("OUT_DIR").expect("a build script has a folder to write to");
    let rich = std::fs::read_to_string(RICH).expect("the templates of the tests");
    let opra = fast_templates(&V2::FORMAT);
    for (file, name, xml) in [("opra_v2.rs", "OpraV2", &opra), ("rich.rs", "Rich", &rich)] {
        let text = fast::built::generate(name, xml).unwrap_or_else(|e| panic!("{name}: {e}"));
        std::fs::write(Path::new(&folder).join(file), text).expect("room for a source file");
    }
}
