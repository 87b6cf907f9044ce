//! Disks that fill and lose their power.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use emulator::{Disk, own_mounts};

use super::alone;

/// Does something with a disk of 32 MiB in mounts of its own, where that is allowed.
fn with_disk(name: &str, work: impl FnOnce(&Disk, &Path) + Send) {
    // Others count the descriptors of this process.
    let _alone = alone();
    let dir = std::env::temp_dir().join(format!("emulator-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    let at = dir.join("mounted");
    let made = || own_mounts().and_then(|()| Disk::make(&dir.join("image"), &at, 32 << 20));
    std::thread::scope(|scope| {
        scope.spawn(|| match made() {
            Ok(disk) => work(&disk, &at),
            Err(error) if std::env::var_os("CI").is_none() => println!("not tested: {error}"),
            Err(error) => panic!("{error}"),
        });
    });
    assert_eq!(fs::read_dir(&at).unwrap().count(), 0, "other threads don't see what is mounted");
    fs::remove_dir(&at).unwrap();
    fs::remove_dir(&dir).unwrap();
}

#[test]
fn a_power_cut_loses_what_was_not_synced_and_nothing_else() {
    with_disk("power", |disk, at| {
        let mut synced = fs::File::create(at.join("synced")).unwrap();
        synced.write_all(b"kept").unwrap();
        synced.sync_all().unwrap();
        synced.write_all(b" and lost").unwrap();
        fs::write(at.join("never-synced"), b"lost").unwrap();
        drop(synced);
        disk.power_off().unwrap();
        disk.power_on().unwrap();
        assert_eq!(fs::read(at.join("synced")).unwrap(), b"kept");
        assert!(!at.join("never-synced").exists());
        // Whoever has it open keeps it.
        let open = fs::File::open(at.join("synced")).unwrap();
        assert!(disk.power_off().is_err());
        drop(open);
    });
}

#[test]
fn a_disk_is_full_until_it_is_cleared() {
    with_disk("full", |disk, at| {
        let block = vec![7; 64 << 10];
        assert!(disk.fill().unwrap() > 16 << 20);
        let error = fs::write(at.join("more"), &block).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        disk.clear().unwrap();
        fs::write(at.join("more"), &block).unwrap();
    });
}
