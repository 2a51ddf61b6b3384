"""Throughput of splitting proxies on one router: ours, pepsal and none, in the same minutes.

Run as root with a release of the program, pepsal built from its source (`sh autogen.sh && ./configure CFLAGS="-O2 -fcommon" && make`), and
iperf3:

    python benches/peers/pepsal.py PROGRAM PEPSAL [RUNS]

Prints medians in Gbit/s of one connection, and processor time of the proxy for a gigabyte.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import time

SECONDS = 5
HOSTS = ["client", "router", "server"]


def run(words: str) -> str:
    return subprocess.run(words.split(), check=True, capture_output=True, text=True).stdout


def network() -> None:
    for host in HOSTS:
        run(f"ip netns add pepsal-{host}")
        run(f"ip -n pepsal-{host} link set lo up")
    for device, host, near, far in [("lan0", "client", "10.1.0.1", "10.1.0.2"), ("sat0", "server", "10.2.0.1", "10.2.0.2")]:
        run(f"ip -n pepsal-router link add {device} type veth peer name eth0 netns pepsal-{host}")
        run(f"ip -n pepsal-router address add {near}/24 dev {device}")
        run(f"ip -n pepsal-{host} address add {far}/24 dev eth0")
        run(f"ip -n pepsal-router link set {device} up")
        run(f"ip -n pepsal-{host} link set eth0 up")
        run(f"ip -n pepsal-{host} route add default via {near}")
    run("ip netns exec pepsal-router sysctl -q -w net.ipv4.ip_forward=1")


def rules(word: str) -> None:
    """Sends connections from the ground to port 5000 of the router, as pepsal's example does."""
    router = "ip netns exec pepsal-router"
    if word == "add":
        run(f"{router} nft add table ip pepsal")
        run(f"{router} nft add chain ip pepsal before {{ type filter hook prerouting priority -150 ; }}")
        run(f"{router} nft add rule ip pepsal before iifname lan0 meta l4proto tcp tproxy to :5000 meta mark set 1 accept")
        # Answers of servers belong to sockets that have the client's address.
        run(f"{router} nft add rule ip pepsal before iifname sat0 meta l4proto tcp socket transparent 1 meta mark set 1 accept")
    else:
        run(f"{router} nft delete table ip pepsal")
    run(f"ip -n pepsal-router rule {word} fwmark 1 lookup 100")
    run(f"ip -n pepsal-router route {word} local 0.0.0.0/0 dev lo table 100")


def cpu_s(process: int) -> float:
    with open(f"/proc/{process}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(command: list[str] | None) -> tuple[float, float]:
    """Returns Gbit/s, and seconds of processor time for a gigabyte."""
    server = subprocess.Popen(["ip", "netns", "exec", "pepsal-server", "iperf3", "-s"], stdout=subprocess.DEVNULL)
    within = ["ip", "netns", "exec", "pepsal-router"]
    proxy = subprocess.Popen(within + command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) if command else None
    try:
        time.sleep(1)
        words = f"ip netns exec pepsal-client iperf3 --json -c 10.2.0.2 -t {SECONDS}"
        report = json.loads(run(words))["end"]["sum_received"]
        assert proxy is None or proxy.poll() is None, f"{command} ended"
        spent_s = cpu_s(proxy.pid) if proxy else 0.0
        return report["bits_per_second"] / 1e9, spent_s / (report["bytes"] / 1e9)
    finally:
        for process in [proxy, server]:
            if process:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def main() -> None:
    program, pepsal = sys.argv[1:3]
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    ours = [program, "pep", "--ground", "lan0", "--satellite", "sat0", "--mode"]
    kinds = {
        "no proxy": None,
        "bentpipe pep --mode tproxy": [*ours, "tproxy", "--controller", "cubic"],
        "bentpipe pep --mode tun": [*ours, "tun"],
        "pepsal": [pepsal, "-f", "-p", "5000"],
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in kinds}
    network()
    try:
        for _ in range(runs):
            for name, command in kinds.items():
                if name == "pepsal":
                    rules("add")
                try:
                    found[name].append(measure(command))
                finally:
                    if name == "pepsal":
                        rules("delete")
    finally:
        for host in HOSTS:
            run(f"ip netns delete pepsal-{host}")
    for name, figures in found.items():
        rate, cost = (statistics.median(values) for values in zip(*figures, strict=True))
        print(f"{name:28} {rate:6.2f} Gbit/s  {cost:5.2f} s/GB")


main()
