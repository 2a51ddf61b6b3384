"""uD3TN's library pyd3tn (PyPI) over MTCP: `send PORT SOURCE DESTINATION COUNT`, or `receive PORT COUNT`."""

import socket
import sys

from pyd3tn.bundle7 import Bundle, BundleProcFlag, CRCType, create_bundle7
from pyd3tn.mtcp import MTCPConnection, MTCPSocket


def send(port, source, destination, count):
    crcs = [CRCType.NONE, CRCType.CRC16, CRCType.CRC32]
    with MTCPConnection("127.0.0.1", port, timeout=10) as connection:
        for number in range(count):
            crc = crcs[1 + number % 2]
            bundle = create_bundle7(
                source,
                destination,
                f"measure {number} ".encode() * 50,
                crc_type_primary=crc,
                crc_type_canonical=crcs[number % 3],
                sequence_number=number,
                flags=BundleProcFlag.MUST_NOT_BE_FRAGMENTED,
                hop_limit=30,
                bundle_age=5,
                previous_node_eid="ipn:9.0",
            )
            connection.send_bundle(bytes(bundle))


def receive(port, count):
    with socket.create_server(("127.0.0.1", port)) as server:
        server.settimeout(20)
        print("ready", flush=True)
        stream, _ = server.accept()
        with MTCPSocket(stream, timeout=20) as connection:
            for _ in range(count):
                received = connection.recv_bundle()
                bundle = Bundle.parse(received)
                # Written again, it has CRCs that were calculated here.
                assert bytes(bundle) == received, received.hex()
                payload = bundle.payload_block.data
                print(bundle.primary_block.source, bundle.primary_block.destination, len(payload), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5]))
    else:
        receive(int(sys.argv[2]), int(sys.argv[3]))
