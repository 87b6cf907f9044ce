"""Adds up what llvm-cov exports, by decoder: `coverage.py SUMMARY.json [--files]`."""

import json
import sys

DECODERS = {
    "FIX codec": ("fix/src/frame.rs", "fix/src/scan.rs", "fix/src/view.rs", "fix/src/digits.rs"),
    "FIX session": ("fix/src/session/", "fix/src/acceptor.rs", "fix/src/dictionary/check.rs"),
    "SoupBinTCP server session": (
        "wire/src/soupbin/framer.rs", "wire/src/soupbin/packet.rs", "wire/src/soupbin/server.rs"),
    "OUCH": (
        "wire/src/ouch/messages.rs", "wire/src/ouch/appendage.rs", "wire/src/ouch/command.rs",
        "wire/src/ouch/terms.rs", "wire/src/ouch/codes.rs"),
    "ITCH": ("wire/src/itch/messages.rs", "wire/src/itch/event.rs", "wire/src/itch/field.rs"),
    "MoldUDP64 client": ("wire/src/moldudp.rs", "feed/src/listener.rs", "feed/src/reorder.rs"),
    "GLIMPSE client": (
        "wire/src/glimpse.rs", "feed/src/catch_up.rs", "feed/src/snapshot.rs",
        "feed/src/listener/joining.rs", "wire/src/soupbin/client.rs"),
    "overlay datagrams": (
        "overlay/src/frame.rs", "overlay/src/control.rs", "overlay/src/mold.rs",
        "overlay/src/ingress.rs", "overlay/src/uplink.rs", "overlay/src/receiver",
        "overlay/src/private_sender.rs", "overlay/src/private_receiver.rs"),
}


def share(part):
    return f"{part['covered']:>5} of {part['count']:>5} ({100 * part['covered'] / max(part['count'], 1):5.1f} %)"


def add(parts):
    return {key: sum(part[key] for part in parts) for key in ("covered", "count")}


def main(path, files):
    with open(path, encoding="utf-8") as file:
        found = json.load(file)["data"][0]["files"]
    print(f"{'':<26} {'branches':<26} lines")
    for decoder, places in DECODERS.items():
        own = [f for f in found if any(f"crates/{place}" in f["filename"] for place in places)]
        if not own:
            raise SystemExit(f"{decoder}: not in the export")
        parts = [[f["summary"][kind] for f in own] for kind in ("branches", "lines")]
        print(f"{decoder:<26} {share(add(parts[0])):<26} {share(add(parts[1]))}")
        for f in own if files else ():
            name = f["filename"].split("crates/")[1]
            summary = f["summary"]
            print(f"  {name:<24} {share(summary['branches']):<26} {share(summary['lines'])}")


main(sys.argv[1], sys.argv[2:] == ["--files"])
