//! With the feature `dpdk`: compiles the few lines of C between the data plane of that name and Debian's
//! library (`libdpdk-dev`), and links that. Without it there is nothing to do.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "dpdk")]
    dpdk();
}

#[cfg(feature = "dpdk")]
fn dpdk() {
    println!("cargo::rerun-if-changed=src/plane/dpdk.c");
    let said = std::process::Command::new("pkg-config").args(["--cflags", "libdpdk"]).output();
    let flags = match said {
        Ok(said) if said.status.success() => String::from_utf8_lossy(&said.stdout).into_owned(),
        _ => panic!("the feature dpdk needs pkg-config and libdpdk (apt-get install libdpdk-dev)"),
    };
    let mut build = cc::Build::new();
    build.file("src/plane/dpdk.c").std("gnu11");
    for flag in flags.split_whitespace() {
        build.flag(flag);
    }
    build.compile("fairbell_dpdk");
    // Drivers are loaded by the library itself, from its own folder.
    for library in ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_ring", "rte_eal"] {
        println!("cargo::rustc-link-lib={library}");
    }
}
