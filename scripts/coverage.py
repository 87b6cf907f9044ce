"""Adds up what llvm-cov exports, by decoder: `coverage.py SUMMARY.json [--files]`."""

import json
import sys

DECODERS = {
    "FIX codec": ("fix/src/frame.rs", "fix/src/scan.rs", "fix/src/view.rs", "fix/src/digits.rs"),
    "FIX session": ("fix/src/session/", "fix/src/acceptor.rs", "fix/src/dictionary/check.rs"),
    "FIX messages": ("fix/src/app/", "fix/src/value.rs"),
    "SoupBinTCP packets": ("wire/src/soupbin/framer.rs", "wire/src/soupbin/packet.rs"),
    "SoupBinTCP server session": ("wire/src/soupbin/server.rs",),
    "SoupBinTCP client session": ("wire/src/soupbin/client.rs",),
    "OUCH": (
        "wire/src/ouch/messages.rs", "wire/src/ouch/appendage.rs", "wire/src/ouch/command.rs",
        "wire/src/ouch/terms.rs", "wire/src/ouch/codes.rs"),
    "OUCH door": (
        "gateway/src/ouch/", "gateway/src/gateway.rs", "gateway/src/access/throttle.rs"),
    "ITCH": ("wire/src/itch/messages.rs", "wire/src/itch/event.rs", "wire/src/itch/field.rs"),
    "MoldUDP64 client": ("wire/src/moldudp.rs", "feed/src/listener.rs", "feed/src/reorder.rs"),
    "retransmission server": ("overlay/src/feed/retransmission.rs", "overlay/src/feed/mold.rs"),
    "GLIMPSE server": ("feed/src/snapshot_server.rs",),
    "GLIMPSE client": (
        "wire/src/glimpse.rs", "feed/src/catch_up.rs", "feed/src/snapshot.rs",
        "feed/src/listener/joining.rs"),
    "overlay datagrams": (
        "overlay/src/frame.rs", "overlay/src/control.rs", "overlay/src/orders/ingress.rs",
        "overlay/src/orders/uplink.rs", "overlay/src/feed/receiver.rs",
        "overlay/src/feed/duplicate_filter.rs", "overlay/src/private/sender.rs",
        "overlay/src/private/receiver.rs"),
}
KINDS = ("branches", "regions", "lines")


def share(part):
    percent = 100 * part["covered"] / max(part["count"], 1)
    return f"{part['covered']:>5} of {part['count']:>5} ({percent:5.1f} %)"


def add(parts):
    return {key: sum(part[key] for part in parts) for key in ("covered", "count")}


def main(path, files):
    with open(path, encoding="utf-8") as file:
        found = json.load(file)["data"][0]["files"]
    print(f"{'':<26} {KINDS[0]:<26} {KINDS[1]:<26} {KINDS[2]}")
    for decoder, places in DECODERS.items():
        own = [f for f in found if any(f"crates/{place}" in f["filename"] for place in places)]
        if not own:
            raise SystemExit(f"{decoder}: not in the export")
        parts = [[f["summary"][kind] for f in own] for kind in KINDS]
        print(f"{decoder:<26} " + " ".join(f"{share(add(part)):<26}" for part in parts).rstrip())
        for f in own if files else ():
            name = f["filename"].split("crates/")[1]
            shares = [share(f["summary"][kind]) for kind in KINDS]
            print(f"  {name:<40} " + " ".join(f"{each:<26}" for each in shares).rstrip())


main(sys.argv[1], sys.argv[2:] == ["--files"])
