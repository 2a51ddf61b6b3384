#!/bin/sh
# Runs a container and attaches it to an emulated GEO satellite in the place of the client. Needs root, busybox, and systemd-nspawn or
# runc:
#
#   sudo contrib/containers/attach.sh nspawn
#   sudo contrib/containers/attach.sh runc
#
# BENTPIPE is the program, SCENARIO a file with the hosts "client" and "server".
set -eu
runtime=${1:-nspawn}
bentpipe=${BENTPIPE:-bentpipe}
scenario=${SCENARIO:-scenarios/geo.toml}
folder=$(mktemp -d)
trap 'kill -KILL $process 2>/dev/null || true; rm -rf "$folder"' EXIT
process=

# A root file system with busybox and the libraries that it needs.
root=$folder/rootfs
for directory in bin etc proc sys dev tmp usr var run root; do mkdir -p "$root/$directory"; done
cp "$(command -v busybox)" "$root/bin/busybox"
ln -s busybox "$root/bin/sleep"
touch "$root/etc/os-release"
ldd "$root/bin/busybox" 2>/dev/null | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp "$library" "$root$library"
done

mark=$((600 + $$))
case $runtime in
nspawn)
    systemd-nspawn --quiet --register=no --keep-unit --private-network -D "$root" /bin/sleep $mark </dev/null >"$folder/log" 2>&1 &
    ;;
runc)
    cd "$folder"
    runc spec
    sed -i "s/\"terminal\": true/\"terminal\": false/; s/\"sh\"/\"\/bin\/sleep\", \"$mark\"/" config.json
    cd - >/dev/null
    runc run --bundle "$folder" "bentpipe-$$" </dev/null >"$folder/log" 2>&1 &
    ;;
*)
    echo "expected nspawn or runc, got \"$runtime\"" >&2
    exit 2
    ;;
esac
for _ in $(seq 60); do
    process=$(pgrep -f "^/bin/sleep $mark\$" || true)
    [ -n "$process" ] && break
    sleep 0.5
done
[ -n "$process" ] || { cat "$folder/log" >&2; exit 1; }

# The server pings the container over the satellite.
"$bentpipe" emulate "$scenario" --quiet --out "$folder/runs" --attach "client=netns:$process" --on server -- ping -c 3 10.0.0.4
