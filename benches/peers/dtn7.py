"""Bundle nodes side by side: dtn7 and `bentpipe dtn node`, two of each on loopback.

    cargo install dtn7 --locked --root /tmp/dtn7
    python3 dtn7.py BENTPIPE /tmp/dtn7/bin [COUNT]

Loads are COUNT bundles of 1 kB from `bentpipe dtn send` to an endpoint of the second node, over TCPCLv4 and MTCP. A ping passes a node between two
others, which is one of each kind in turn.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

BENTPIPE, DTN7 = sys.argv[1:3]
COUNT = int(sys.argv[3]) if len(sys.argv) > 3 else 10_000
LONGEST = 150
processes = []


def start(arguments):
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    processes.append(process)
    return process


def stop():
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait()
    processes.clear()


def processor_time(process):
    with open(f"/proc/{process.pid}/stat") as file:
        words = file.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def dtnd(folder, number, port, web, layer, peers):
    work = f"{folder}/dtn7-{number}"
    os.makedirs(work, exist_ok=True)
    words = f"-n {number} -w {web} -i0 -p 1h -r epidemic -C {layer}:port={port} -e 42 -W {work}".split()
    statics = [word for peer in peers for word in ("-s", peer)]
    return start([f"{DTN7}/dtnd", *words, *statics])


def node(folder, number, port, layer, neighbours, routes):
    """A node with TCPCL at the port, and MTCP at the next one."""
    text = f"""eid = "ipn:{number}.0"
store = "store-{number}"
storage = "256 MB"
sync = true
[[listen]]
layer = "tcpcl"
at = "127.0.0.1:{port}"
applications = true
[[listen]]
layer = "mtcp"
at = "127.0.0.1:{port + 1}"
"""
    for other, at in neighbours:
        text += f'[[neighbour]]\nnode = {other}\nlayer = "{layer}"\nat = "127.0.0.1:{at}"\n'
    text += "[routes]\n" + "".join(f"{key} = {value}\n" for key, value in routes.items())
    path = f"{folder}/node-{number}.toml"
    with open(path, "w") as file:
        file.write(text)
    return start([BENTPIPE, "dtn", "node", path])


def send(port, layer, to):
    words = ["--layer", layer, "--from", "ipn:1.5", "--to", to, "--payload", "1 kB", "--count", str(COUNT), "-q"]
    return start([BENTPIPE, "dtn", "send", f"127.0.0.1:{port}", *words])


def report(name, layer, count, seconds, nodes):
    time_used = sum(processor_time(one) for one in nodes)
    print(f"{name} {layer}: {count} in {seconds:.2f} s, {count / seconds:.0f}/s, {time_used:.2f} s of processor time")


def load_dtn7(folder, layer):
    scheme = {"tcpcl": "tcp", "mtcp": "mtcp"}[layer]
    one = dtnd(folder, 23, 23000, 23010, scheme, [f"{scheme}://127.0.0.1:23001/24"])
    two = dtnd(folder, 24, 23001, 23011, scheme, [f"{scheme}://127.0.0.1:23000/23"])
    time.sleep(4)
    began, delivered = time.monotonic(), 0
    send(23000, layer, "ipn:24.42")
    while delivered < COUNT and time.monotonic() < began + LONGEST:
        time.sleep(0.05)
        with urllib.request.urlopen("http://127.0.0.1:23011/status/info", timeout=5) as answer:
            delivered = json.load(answer)["delivered"]
    report("dtn7", layer, delivered, time.monotonic() - began, [one, two])


def load_own(folder, layer):
    offset = 1 if layer == "mtcp" else 0
    one = node(folder, 1, 24000, layer, [(2, 24010 + offset)], {"default": 2})
    two = node(folder, 2, 24010, layer, [(1, 24000 + offset)], {"default": 1})
    time.sleep(2)
    words = ["--via", "127.0.0.1:24010", "--node", "ipn:2.42", "--count", str(COUNT), "-q"]
    receiver = start([BENTPIPE, "dtn", "receive", *words])
    time.sleep(1)
    began = time.monotonic()
    send(24000 + offset, layer, "ipn:2.42")
    receiver.wait(timeout=LONGEST)
    report("bentpipe", layer, COUNT, time.monotonic() - began, [one, two])


def ping(folder, middle):
    if middle == "dtn7":
        dtnd(folder, 23, 25000, 25030, "tcp", ["tcp://127.0.0.1:25010/1", "tcp://127.0.0.1:25020/2"])
    else:
        node(folder, 23, 25000, "tcpcl", [(1, 25010), (2, 25020)], {1: 1, 2: 2})
    for number, port in [(1, 25010), (2, 25020)]:
        node(folder, number, port, "tcpcl", [(23, 25000)], {"default": 23})
    time.sleep(5)
    words = ["127.0.0.1:25010", "ipn:2.7", "--from", "ipn:1.60", "--count", "50", "--interval", "100ms", "-q"]
    answer = subprocess.run([BENTPIPE, "dtn", "ping", *words], capture_output=True, text=True)
    print(f"ping through {middle}:", answer.stdout.strip().replace("\n", "; "))


def main():
    for run in (load_own, load_dtn7):
        for layer in ("tcpcl", "mtcp"):
            attempt(run, layer)
    for middle in ("bentpipe", "dtn7"):
        attempt(ping, middle)


def attempt(run, argument):
    with tempfile.TemporaryDirectory() as folder:
        try:
            run(folder, argument)
        finally:
            stop()


main()
