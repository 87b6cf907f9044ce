#!/usr/bin/env python3
"""Stands for the provider hashicorp/aws where that can not be had: it knows the arguments, blocks and results of resources, and makes
none. OpenTofu starts it as it starts providers (protocol 6, gRPC with TLS), reads the schema and judges a module by it.

FAIRBELL_AWS_SCHEMA names the file that schema.py has written.
"""

import base64
import datetime
import json
import os
import sys
import threading
from concurrent import futures

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

SERVICE = "tfplugin6.Provider"
LIST = 2


def number(value):
    """A varint of protobuf."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def text(field, value):
    """A field of text, bytes or a message."""
    value = value.encode() if isinstance(value, str) else value
    return number(field << 3 | 2) + number(len(value)) + value


def whole(field, value):
    """A field of a whole number or of yes and no."""
    return number(field << 3) + number(int(value)) if value else b""


def block(of):
    """Schema.Block of {"attributes": {name: {"type", "required"}}, "blocks": {name: {"block", "required", "one"}}}."""
    out = b""
    for name, is_ in of["attributes"].items():
        given = whole(4, True) if is_["required"] else whole(5, is_["optional"]) + whole(6, True)
        out += text(2, text(1, name) + text(2, json.dumps(is_["type"])) + given)
    for name, is_ in of["blocks"].items():
        limits = whole(4, is_["required"]) + whole(5, is_["one"])
        out += text(3, text(1, name) + text(2, block(is_["block"])) + whole(3, LIST) + limits)
    return out


def schemas(file):
    """GetProviderSchema.Response."""
    with open(file, encoding="utf-8") as opened:
        known = json.load(opened)
    out = text(1, text(2, b""))
    for field, kind in ((2, "resources"), (3, "data")):
        for name, of in known[kind].items():
            out += text(field, text(1, name) + text(2, text(2, block(of))))
    return out


def certificate():
    """A key and a certificate of this process alone, which OpenTofu is told of on standard output."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
            .not_valid_before(now - datetime.timedelta(minutes=1)).not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(key, hashes.SHA256()))
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private, made.public_bytes(serialization.Encoding.PEM), made.public_bytes(serialization.Encoding.DER)


def main():
    if os.environ.get("TF_PLUGIN_MAGIC_COOKIE") is None:
        sys.exit("provider.py: started by OpenTofu, not by hand")
    answer, over = schemas(os.environ["FAIRBELL_AWS_SCHEMA"]), threading.Event()

    def method(reply):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: reply())

    def stop():
        over.set()
        return b""

    # Judged by the schema alone: nobody complains of a value.
    silent = ("ValidateProviderConfig", "ValidateResourceConfig", "ValidateDataResourceConfig", "ConfigureProvider", "StopProvider")
    methods = {name: method(lambda: b"") for name in silent} | {"GetProviderSchema": method(lambda: answer)}
    private, pem, der = certificate()
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((
        grpc.method_handlers_generic_handler(SERVICE, methods),
        grpc.method_handlers_generic_handler("plugin.GRPCController", {"Shutdown": method(stop)}),
    ))
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(private, pem)]))
    server.start()
    print(f"1|6|tcp|127.0.0.1:{port}|grpc|{base64.b64encode(der).decode().rstrip('=')}", flush=True)
    over.wait(600)
    server.stop(0.2).wait()


main()
