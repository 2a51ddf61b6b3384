#!/bin/sh
# Two gateways in network namespaces with WireGuard in front: keys, sites, a ping, new preshared keys under traffic.
# Needs root, bentpipe, ip, ping, wg (wireguard-tools), and WireGuard in the kernel or wireguard-go.
# usage: two-sites.sh [SECONDS]    duration of the traffic with the rotation; over 120 s a new session uses the new key
set -eu
seconds=${1:-10}
folder=$(mktemp -d)
umask 077
processes=
finish() {
    for process in $processes; do kill -INT "$process" 2>/dev/null || true; done
    sleep 1
    for site in a b; do ip netns delete "sec-$site" 2>/dev/null || true; done
    rm -r "$folder"
}
trap finish EXIT

for site in a b; do
    ip netns add "sec-$site"
    ip -n "sec-$site" link set lo up
    wg genkey > "$folder/$site.key"
    wg pubkey < "$folder/$site.key" > "$folder/$site.pub"
done
wg genpsk > "$folder/shared"
ip link add up0 netns sec-a type veth peer name up0 netns sec-b

# tunnel SITE NUMBER OTHER OTHER_NUMBER: the interface wg-SITE, which takes from the other site's address only.
tunnel() {
    ip -n "sec-$1" address add "192.0.2.$2/24" dev up0
    ip -n "sec-$1" link set up0 up
    if ! ip -n "sec-$1" link add "wg-$1" type wireguard 2>/dev/null; then
        ip netns exec "sec-$1" wireguard-go -f "wg-$1" > "$folder/wireguard-$1" 2>&1 &
        processes="$processes $!"
        while ! ip -n "sec-$1" link show "wg-$1" > /dev/null 2>&1; do sleep 0.1; done
    fi
    ip netns exec "sec-$1" wg set "wg-$1" listen-port 51820 private-key "$folder/$1.key" \
        peer "$(cat "$folder/$3.pub")" preshared-key "$folder/shared" \
        endpoint "192.0.2.$4:51820" allowed-ips "198.51.100.$4/32"
    ip -n "sec-$1" address add "198.51.100.$2/24" dev "wg-$1"
    ip -n "sec-$1" link set "wg-$1" up
}
tunnel a 1 b 2
tunnel b 2 a 1

# site SITE NUMBER OTHER_NUMBER: a gateway whose carrier goes through the tunnel.
site() {
    cat > "$folder/site-$1.toml" <<EOF
title = "Site $1"
[lan]
device = "bent0"
addresses = ["10.$2.0.1/32"]
[carrier]
rate = "8 Mbit/s"
[[output]]
kind = "udp"
to = ["198.51.100.$3:5004"]
[[input]]
kind = "udp"
listen = "198.51.100.$2:5004"
from = ["198.51.100.$3"]
[remote.other]
send = "0x10$2"
receive = ["0x10$3"]
networks = ["10.$3.0.0/24"]
EOF
    ip netns exec "sec-$1" bentpipe gateway --quiet "$folder/site-$1.toml" &
    processes="$! $processes"
}
site a 1 2
site b 2 1
sleep 2

ip netns exec sec-a ping -c $((seconds * 20)) -i 0.05 10.2.0.1 > "$folder/pings" &
pings=$!
sleep 2
wg genpsk > "$folder/shared"
ip netns exec sec-a wg set wg-a peer "$(cat "$folder/b.pub")" preshared-key "$folder/shared"
ip netns exec sec-b wg set wg-b peer "$(cat "$folder/a.pub")" preshared-key "$folder/shared"
wait $pings || true
tail -n 2 "$folder/pings"
