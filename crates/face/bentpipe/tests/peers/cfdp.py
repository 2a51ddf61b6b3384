"""Entity 2 of cfdp-py (PyPI) over UDP: `receive PORT FILE`, or `send PORT FILE NAME CLASS`."""

import socket
import sys
import time
from datetime import timedelta
from pathlib import Path

from cfdppy.handler.dest import DestHandler
from cfdppy.handler.source import SourceHandler
from cfdppy.mib import (
    CheckTimerProvider,
    DefaultFaultHandlerBase,
    IndicationCfg,
    LocalEntityCfg,
    RemoteEntityCfg,
    RemoteEntityCfgTable,
)
from cfdppy.request import PutRequest
from cfdppy.user import CfdpUserBase
from spacepackets.cfdp import ChecksumType, TransmissionMode
from spacepackets.cfdp.pdu import PduFactory
from spacepackets.countdown import Countdown
from spacepackets.seqcount import SeqCountProvider
from spacepackets.util import ByteFieldU8

OWN, OTHER = ByteFieldU8(2), ByteFieldU8(1)


class Faults(DefaultFaultHandlerBase):
    def notice_of_suspension_cb(self, transaction_id, cond, progress):
        print("suspended", cond, flush=True)

    def notice_of_cancellation_cb(self, transaction_id, cond, progress):
        print("cancelled", cond, flush=True)

    def abandoned_cb(self, transaction_id, cond, progress):
        print("abandoned", cond, flush=True)

    def ignore_cb(self, transaction_id, cond, progress):
        print("ignored", cond, flush=True)


class User(CfdpUserBase):
    finished = None

    def transaction_indication(self, transaction_indication_params):
        pass

    def eof_sent_indication(self, transaction_id):
        pass

    def transaction_finished_indication(self, params):
        self.finished = params.finished_params

    def metadata_recv_indication(self, params):
        pass

    def file_segment_recv_indication(self, params):
        pass

    def report_indication(self, transaction_id, status_report):
        pass

    def suspended_indication(self, transaction_id, cond_code):
        pass

    def resumed_indication(self, transaction_id, progress):
        pass

    def fault_indication(self, transaction_id, cond_code, progress):
        print("fault", cond_code, flush=True)

    def abandoned_indication(self, transaction_id, cond_code, progress):
        print("abandoned", cond_code, flush=True)

    def eof_recv_indication(self, transaction_id):
        pass


class Timers(CheckTimerProvider):
    def provide_check_timer(self, local_entity_id, remote_entity_id, entity_type):
        return Countdown(timedelta(seconds=1))


def main():
    verb, port, path = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    own = LocalEntityCfg(OWN, IndicationCfg(), Faults())
    other = RemoteEntityCfg(
        entity_id=OTHER,
        max_file_segment_len=500,
        max_packet_len=1024,
        closure_requested=False,
        crc_on_transmission=True,
        default_transmission_mode=TransmissionMode.ACKNOWLEDGED,
        crc_type=ChecksumType.CRC_32,
        positive_ack_timer_interval_seconds=0.5,
        positive_ack_timer_expiration_limit=20,
        nak_timer_interval_seconds=0.5,
        nak_timer_expiration_limit=20,
    )
    table, user = RemoteEntityCfgTable([other]), User()
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.settimeout(0.02)
    if verb == "receive":
        udp.bind(("127.0.0.1", port))
        handler, peer = DestHandler(own, user, table, Timers()), None
        print("ready", flush=True)
    else:
        peer = ("127.0.0.1", port)
        handler = SourceHandler(own, user, table, Timers(), SeqCountProvider(16))
        mode = TransmissionMode.ACKNOWLEDGED if sys.argv[5] == "2" else TransmissionMode.UNACKNOWLEDGED
        handler.put_request(PutRequest(OTHER, path, Path(sys.argv[4]), mode, False))
    end, over_at = time.monotonic() + 30, None
    while time.monotonic() < end and (over_at is None or time.monotonic() < over_at):
        pdu = None
        try:
            data, address = udp.recvfrom(65536)
            peer = peer or address
            pdu = PduFactory.from_raw(data)
        except TimeoutError:
            pass
        handler.state_machine(pdu)
        while handler.packets_ready:
            holder = handler.get_next_packet()
            udp.sendto(bytes(holder.pdu.pack()), peer)
            if verb == "send":
                handler.state_machine(None)
        if user.finished is not None and over_at is None:
            over_at = time.monotonic() + 0.5
    print("finished", user.finished, flush=True)


main()
