"""TCPCLv4 peer in TLS by OpenSSL: python3 tls_peer.py active|passive PORT CERTIFICATE KEY TRUST, as node ipn:1.0."""

import socket
import ssl
import struct
import sys

role, port, certificate, key, trust = sys.argv[1], int(sys.argv[2]), *sys.argv[3:6]
CONTACT = b"dtn!\x04\x01"


def take(stream, length):
    data = b""
    while len(data) < length:
        more = stream.recv(length - len(data))
        if not more:
            sys.exit("closed")
        data += more
    return data


if role == "active":
    raw = socket.create_connection(("127.0.0.1", port))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
else:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    raw, _ = listener.accept()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
raw.settimeout(8)
context.load_cert_chain(certificate, key)
context.load_verify_locations(trust)
context.verify_mode = ssl.CERT_REQUIRED
raw.sendall(CONTACT)
assert take(raw, 6) == CONTACT
tls = context.wrap_socket(raw, server_side=role == "passive")
node = b"ipn:1.0"
tls.sendall(struct.pack(">BHQQH", 7, 30, 1 << 20, 1 << 20, len(node)) + node + bytes(4))
head = struct.unpack(">BHQQH", take(tls, 21))
assert head[0] == 7, head
peer = take(tls, head[4]).decode()
take(tls, struct.unpack(">I", take(tls, 4))[0])
if role == "active":
    print(tls.version(), peer)
    tls.sendall(bytes([5, 0, 0]))
    take(tls, 3)
else:
    while True:
        kind = take(tls, 1)[0]
        if kind == 5:
            flags, reason = take(tls, 2)
            tls.sendall(bytes([5, 1, reason]))
            break
        assert kind == 1, kind
        flags, transfer = struct.unpack(">BQ", take(tls, 9))
        if flags & 2:
            take(tls, struct.unpack(">I", take(tls, 4))[0])
        length = struct.unpack(">Q", take(tls, 8))[0]
        take(tls, length)
        if flags & 1:
            tls.sendall(struct.pack(">BBQQ", 2, flags, transfer, length))
