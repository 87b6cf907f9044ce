#!/usr/bin/env python3
"""Packs the `fairbell` program: Debian package, tarball, root file system, OCI image, Python wheel, bill of materials.

    scripts/package.py [--binary PATH] [--out DIR]
    scripts/package.py --build-only

Without --binary it is built (profile dist: the whole program optimized as one); --build-only does that alone and says where the program is. The same program and
sources give the same bytes: files are in the order of their names, of root, of the mode that is said here, and of the time
SOURCE_DATE_EPOCH, by default that of the last commit.
Needs binutils and dpkg-deb. DIR (default target/package) gets SHA256SUMS over all of it.
"""

import argparse
import base64
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import uuid
import zipfile
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SYSTEMD = ROOT / "deploy" / "systemd"
# User and group of the program in an image: numbers, because Kubernetes can only judge numbers.
USER = 10001
PLATFORMS = {"x86_64": ("amd64", "x86_64-unknown-linux-gnu"), "aarch64": ("arm64", "aarch64-unknown-linux-gnu")}


def run(*words, **options):
    """What a command prints; what it complains of ends this."""
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def built():
    """A build without the paths of this machine in it, Rust's or C's."""
    cargo = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute() / "package-build"
    # The last one that fits holds.
    names = ((ROOT, "/fairbell"), (cargo, "/cargo"), (target, "/fairbell/target"))
    rust = " ".join(f"--remap-path-prefix={path}={name}" for path, name in names)
    c = " ".join(f"-ffile-prefix-map={path}={name}" for path, name in names)
    subprocess.run(
        ["cargo", "build", "--locked", "--profile", "dist", "--package", "fairbell"], check=True, cwd=ROOT,
        env=os.environ | {"RUSTFLAGS": rust, "CFLAGS": c, "CARGO_TARGET_DIR": str(target), "CARGO_INCREMENTAL": "0"},
    )
    return target / "dist" / "fairbell"


def describe_commands(program, folder):
    """Manual pages by name and completions by path, as the program itself makes them."""
    run(str(program), "man", "--out", str(folder / "man"))
    pages = {page.name: page.read_bytes() for page in sorted((folder / "man").iterdir())}
    shells = {"bash": "usr/share/bash-completion/completions/fairbell", "zsh": "usr/share/zsh/vendor-completions/_fairbell",
              "fish": "usr/share/fish/vendor_completions.d/fairbell.fish"}
    return pages, {path: run(str(program), "completions", shell).encode() for shell, path in shells.items()}


class Program:
    """The stripped program, and what of the system it needs."""

    def __init__(self, path):
        with tempfile.TemporaryDirectory() as folder:
            bare = Path(folder) / "fairbell"
            run("strip", "--strip-all", "-o", str(bare), str(path))
            self.bytes = bare.read_bytes()
            self.manual, self.completions = describe_commands(bare, Path(folder))
        machine = os.uname().machine
        if machine not in PLATFORMS:
            sys.exit(f"package.py: no packages for {machine}, only for {', '.join(PLATFORMS)}")
        self.machine = machine
        self.debian, self.triple = PLATFORMS[machine]
        needs = run("readelf", "-W", "--version-info", str(path))
        versions = {tuple(map(int, found)) for found in re.findall(r"GLIBC_(\d+)\.(\d+)", needs)}
        if not versions:
            sys.exit(f"package.py: {path} names no version of glibc: is it linked statically or no program of Linux?")
        self.glibc = max(versions)
        # Where the loader finds each library: "libm.so.6 => /lib/x/libm.so.6 (0x...)", the loader itself by its path.
        found = re.findall(r"(?:=> )?(/\S+) \(0x", run("ldd", str(path)))
        self.libraries = sorted({library for library in found if library.startswith("/")})

    def owners(self):
        """Debian package and version of each library, where this machine knows."""
        owners = []
        for library in self.libraries:
            name = version = None
            for path in (library, os.path.realpath(library), os.path.realpath(library).removeprefix("/usr")):
                asked = subprocess.run(["dpkg-query", "-S", path], capture_output=True, text=True)
                if asked.returncode == 0:
                    name = asked.stdout.split(":")[0]
                    version = run("dpkg-query", "-W", "-f", "${Version}", name)
                    break
            owners.append((library, name, version))
        return owners


def describe():
    """Name, version, and the text for people."""
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]
    return workspace["version"], workspace["license"]


def bill(program, version, epoch):
    """Everything that the program is made of, as CycloneDX 1.5."""
    told = json.loads(run("cargo", "metadata", "--locked", "--format-version", "1",
                          "--filter-platform", program.triple, cwd=ROOT))
    packages = {package["id"]: package for package in told["packages"]}
    nodes = {node["id"]: node for node in told["resolve"]["nodes"]}
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    sums = {(one["name"], one["version"]): one.get("checksum") for one in lock}
    root = next(id for id, package in packages.items() if package["name"] == "fairbell" and package["source"] is None)

    def needed(id):
        kinds = ((dep["pkg"], {kind["kind"] for kind in dep["dep_kinds"]}) for dep in nodes[id]["deps"])
        return sorted(pkg for pkg, kinds in kinds if kinds != {"dev"})

    seen, todo = set(), [root]
    while todo:
        id = todo.pop()
        if id not in seen:
            seen.add(id)
            todo.extend(needed(id))

    def ref(id):
        package = packages[id]
        return f"pkg:cargo/{package['name']}@{package['version']}"

    def component(id):
        package = packages[id]
        part = {"type": "library", "bom-ref": ref(id), "name": package["name"], "version": package["version"],
                "purl": ref(id)}
        if package["license"]:
            part["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        checksum = sums.get((package["name"], package["version"]))
        if checksum:
            part["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        if package["repository"]:
            part["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
        return part

    parts = sorted((component(id) for id in seen if id != root), key=lambda part: part["bom-ref"])
    for library, name, its in program.owners():
        part = {"type": "library", "bom-ref": f"file:{library}", "name": Path(library).name,
                "hashes": [{"alg": "SHA-256", "content": sha256(Path(library).read_bytes())}],
                "properties": [{"name": "fairbell:only-in", "value": "root file system and image"}]}
        if name:
            part |= {"version": its, "purl": f"pkg:deb/debian/{name}@{its}?arch={program.debian}"}
        parts.append(part)
    depends = [{"ref": ref(id), "dependsOn": [ref(other) for other in needed(id)]} for id in sorted(seen, key=ref)]
    body = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {"type": "application", "bom-ref": ref(root), "name": "fairbell", "version": version,
                          "purl": ref(root), "licenses": [{"expression": "Apache-2.0"}],
                          "hashes": [{"alg": "SHA-256", "content": sha256(program.bytes)}]},
        },
        "components": parts,
        "dependencies": depends,
    }
    digest = sha256(json.dumps(body, sort_keys=True).encode())
    body["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}"
    return (json.dumps(body, indent=1, sort_keys=True) + "\n").encode()


class Tree:
    """Files of a package by path, with mode and owner; folders above them come by themselves."""

    def __init__(self):
        self.entries = {}

    def folder(self, path, mode=0o755, owner=0):
        self.entries[path] = (None, mode, owner)

    def file(self, path, data, mode=0o644):
        self.entries[path] = (data, mode, 0)

    def copy(self, path, source, mode=0o644):
        self.file(path, source.read_bytes(), mode)

    def whole(self):
        """All entries, parents before what is in them."""
        entries = dict(self.entries)
        for path in self.entries:
            for parent in list(Path(path).parents)[:-1]:
                entries.setdefault(str(parent), (None, 0o755, 0))
        return sorted(entries.items())

    def tar(self, epoch, prefix=""):
        """An uncompressed tar of it."""
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for path, (data, mode, owner) in self.whole():
                info = tarfile.TarInfo(prefix + path)
                info.mode, info.mtime, info.uid, info.gid = mode, epoch, owner, owner
                if data is None:
                    info.type = tarfile.DIRTYPE
                    archive.addfile(info)
                else:
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))
        return out.getvalue()

    def lay(self, folder, epoch):
        """Writes it below a folder, with modes and times."""
        for path, (data, mode, _) in self.whole():
            at = folder / path
            if data is None:
                at.mkdir(parents=True, exist_ok=True)
            else:
                at.write_bytes(data)
            at.chmod(mode)
        for path, _ in reversed(self.whole()):
            os.utime(folder / path, (epoch, epoch))
        os.utime(folder, (epoch, epoch))


def zipped(data):
    """gzip without a name or a time in it."""
    return gzip.compress(data, compresslevel=6, mtime=0)


def documents(tree, at, sbom):
    tree.copy(f"{at}/LICENSE", ROOT / "LICENSE")
    tree.copy(f"{at}/README.md", ROOT / "README.md")
    tree.file(f"{at}/sbom.cdx.json", sbom)
    for page in sorted((ROOT / "docs").glob("*.md")):
        tree.copy(f"{at}/{page.name}", page)


def system(program, sbom):
    """What is installed on a machine, by package or role."""
    tree = Tree()
    tree.file("usr/bin/fairbell", program.bytes, 0o755)
    for unit in sorted(SYSTEMD.glob("*.service")):
        tree.copy(f"usr/lib/systemd/system/{unit.name}", unit)
    for drop in sorted((SYSTEMD / "drop-ins").glob("*.conf")):
        tree.copy(f"usr/share/fairbell/drop-ins/{drop.name}", drop)
    tree.copy("usr/lib/sysusers.d/fairbell.conf", SYSTEMD / "fairbell.sysusers.conf")
    tree.copy("usr/lib/tmpfiles.d/fairbell.conf", SYSTEMD / "fairbell.tmpfiles.conf")
    tree.copy("usr/lib/sysctl.d/60-fairbell.conf", SYSTEMD / "60-fairbell.sysctl.conf")
    tree.copy("usr/lib/udev/rules.d/70-fairbell-ptp.rules", SYSTEMD / "70-fairbell-ptp.rules")
    tree.copy("etc/security/limits.d/60-fairbell.conf", SYSTEMD / "fairbell.limits.conf")
    # Every key of the settings, with its meaning.
    tree.copy("usr/share/fairbell/fairbell.toml", ROOT / "fairbell.toml")
    tree.copy("usr/share/fairbell/aws-machine", ROOT / "deploy" / "aws" / "aws-machine", 0o755)
    for name, page in program.manual.items():
        tree.file(f"usr/share/man/man1/{name}.gz", zipped(page))
    for path, text in program.completions.items():
        tree.file(path, text)
    documents(tree, "usr/share/doc/fairbell", sbom)
    return tree


def debian(program, tree, version, epoch, out):
    deploy = ROOT / "deploy" / "debian"
    control = Tree()
    files = [(path, data) for path, (data, _, _) in sorted(tree.entries.items()) if data is not None]
    fields = (deploy / "control").read_text(encoding="utf-8")
    size = sum(len(data) for _, data in files) // 1024 + 1
    glibc = ".".join(map(str, program.glibc))
    for name, value in (("VERSION", version), ("ARCH", program.debian), ("SIZE", str(size)), ("GLIBC", glibc)):
        fields = fields.replace(f"@{name}@", value)
    control.file("DEBIAN/control", fields.encode())
    for script in ("postinst", "prerm", "postrm"):
        control.copy(f"DEBIAN/{script}", deploy / script, 0o755)
    settings = [f"/{path}\n" for path, _ in files if path.startswith("etc/")]
    control.file("DEBIAN/conffiles", "".join(settings).encode())
    sums = [f"{hashlib.md5(data).hexdigest()}  {path}\n" for path, data in files if not path.startswith("etc/")]
    control.file("DEBIAN/md5sums", "".join(sums).encode())
    control.copy("usr/share/doc/fairbell/copyright", deploy / "copyright")
    control.entries |= tree.entries
    with tempfile.TemporaryDirectory() as folder:
        staged = Path(folder) / "fairbell"
        staged.mkdir(mode=0o755)
        control.lay(staged, epoch)
        run("dpkg-deb", "--root-owner-group", "--uniform-compression", "-Zgzip", "-z6", "--build", str(staged),
            str(out / f"fairbell_{version}_{program.debian}.deb"),
            env=os.environ | {"SOURCE_DATE_EPOCH": str(epoch)})


def root_files(program, sbom):
    """The program and the libraries that it loads, and nothing to run beside it."""
    tree = Tree()
    tree.file("usr/bin/fairbell", program.bytes, 0o755)
    for library in program.libraries:
        tree.copy(library.lstrip("/"), Path(library), 0o755)
    tree.file("etc/passwd", f"root:x:0:0:root:/:/nonexistent\nfairbell:x:{USER}:{USER}:Fairbell:/var/lib/fairbell:/nonexistent\n".encode())
    tree.file("etc/group", f"root:x:0:\nfairbell:x:{USER}:\n".encode())
    # Names of machines: /etc/hosts, then DNS.
    tree.file("etc/nsswitch.conf", b"passwd: files\ngroup: files\nhosts: files dns\n")
    tree.folder("etc/fairbell")
    for mount in ("dev", "proc", "sys", "run"):
        tree.folder(mount)
    tree.folder("tmp", 0o1777)
    tree.folder("var/lib/fairbell", 0o700, USER)
    tree.copy("usr/share/fairbell/fairbell.toml", ROOT / "fairbell.toml")
    tree.file("usr/share/doc/fairbell/sbom.cdx.json", sbom)
    tree.copy("usr/share/doc/fairbell/LICENSE", ROOT / "LICENSE")
    return tree


def image(program, tree, version, epoch):
    """An OCI image layout in a tar, of one layer."""
    layer = tree.tar(epoch)
    packed = zipped(layer)
    created = datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    blobs = Tree()

    def blob(media, data):
        blobs.file(f"blobs/sha256/{sha256(data)}", data)
        return {"mediaType": media, "digest": f"sha256:{sha256(data)}", "size": len(data)}

    def text(value):
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

    kind = "application/vnd.oci.image"
    config = blob(f"{kind}.config.v1+json", text({
        "created": created,
        "architecture": program.debian,
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "Entrypoint": ["/usr/bin/fairbell"],
            "Cmd": ["--help"],
            "WorkingDir": "/var/lib/fairbell",
            "StopSignal": "SIGTERM",
            "Env": ["PATH=/usr/bin"],
            "Labels": {"org.opencontainers.image.title": "fairbell", "org.opencontainers.image.version": version,
                       "org.opencontainers.image.licenses": "Apache-2.0"},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha256(layer)}"]},
        "history": [{"created": created, "created_by": "scripts/package.py"}],
    }))
    manifest = blob(f"{kind}.manifest.v1+json", text({
        "schemaVersion": 2, "mediaType": f"{kind}.manifest.v1+json", "config": config,
        "layers": [blob(f"{kind}.layer.v1.tar+gzip", packed)],
    }))
    manifest["annotations"] = {"org.opencontainers.image.ref.name": version}
    blobs.file("index.json", text({"schemaVersion": 2, "mediaType": f"{kind}.index.v1+json", "manifests": [manifest]}))
    blobs.file("oci-layout", text({"imageLayoutVersion": "1.0.0"}))
    return blobs.tar(epoch)


def wheel(program, version, sbom, epoch, out):
    """The program as a script of a Python package: `pip install` puts it into the environment's bin.

    Its name is not `fairbell`, which is the client library's (sdk/python): pip would take either for a version of the other.
    """
    tag = f"py3-none-manylinux_{program.glibc[0]}_{program.glibc[1]}_{program.machine}"
    info = f"fairbell_program-{version}.dist-info"
    metadata = (f"Metadata-Version: 2.4\nName: fairbell-program\nVersion: {version}\n"
                "Summary: A cloud exchange that is fair by construction: the program\n"
                "License-Expression: Apache-2.0\nLicense-File: LICENSE\nRequires-Python: >=3.8\n"
                "Description-Content-Type: text/markdown\n\n")
    metadata += "The `fairbell` program. `fairbell up --once` runs a whole exchange on this machine; `fairbell --help` says the rest.\n"
    files = {
        f"fairbell_program-{version}.data/scripts/fairbell": (program.bytes, 0o755),
        f"{info}/METADATA": (metadata.encode(), 0o644),
        f"{info}/WHEEL": (f"Wheel-Version: 1.0\nGenerator: fairbell package.py\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), 0o644),
        f"{info}/licenses/LICENSE": ((ROOT / "LICENSE").read_bytes(), 0o644),
        f"{info}/sboms/sbom.cdx.json": (sbom, 0o644),
    }
    record = ""
    for path, (data, _) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = (f"{record}{info}/RECORD,,\n".encode(), 0o644)
    # Times of a zip are of 1980 at the earliest.
    when = datetime.fromtimestamp(max(epoch, 315532800), timezone.utc).timetuple()[:6]
    with zipfile.ZipFile(out / f"fairbell_program-{version}-{tag}.whl", "w") as archive:
        for path, (data, mode) in files.items():
            entry = zipfile.ZipInfo(path, when)
            entry.create_system, entry.external_attr = 3, (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data, compresslevel=6)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--binary", type=Path, help="the program [default: built now]")
    options.add_argument("--build-only", action="store_true", help="build it, say where it is, pack nothing")
    options.add_argument("--out", type=Path, default=ROOT / "target" / "package", help="folder of what is made")
    options = options.parse_args()
    if options.build_only:
        print(built())
        return
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or run("git", "log", "-1", "--format=%ct", cwd=ROOT)
    epoch = int(epoch)
    os.umask(0o022)
    for tool in ("strip", "readelf", "ldd", "dpkg-deb", "cargo"):
        if not shutil.which(tool):
            sys.exit(f"package.py: {tool} is missing: install binutils, dpkg and Rust")
    if options.binary and not options.binary.is_file():
        sys.exit(f"package.py: {options.binary}: no such program")
    program = Program(options.binary or built())
    version, _ = describe()
    out = options.out
    out.mkdir(parents=True, exist_ok=True)
    sbom = bill(program, version, epoch)
    (out / "fairbell.cdx.json").write_bytes(sbom)
    tree = system(program, sbom)
    debian(program, tree, version, epoch, out)
    name = f"fairbell-{version}-{program.machine}-linux"
    (out / f"{name}.tar.gz").write_bytes(zipped(tree.tar(epoch, f"{name}/")))
    files = root_files(program, sbom)
    (out / f"{name}-rootfs.tar.gz").write_bytes(zipped(files.tar(epoch)))
    (out / f"{name}-oci.tar").write_bytes(image(program, files, version, epoch))
    wheel(program, version, sbom, epoch, out)
    made = sorted(path for path in out.iterdir() if path.name != "SHA256SUMS" and path.is_file())
    lines = [f"{sha256(path.read_bytes())}  {path.name}\n" for path in made]
    (out / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
    print("".join(lines), end="")


main()
