#!/usr/bin/env bash
# Two rxe devices, rxa (10.9.0.1) and rxb (10.9.0.2), on the two ends of a veth pair in this network namespace.
#   network.sh up     make them
#   network.sh down   remove them; routing is as it was
#   network.sh hold   make them, and remove them when standard input ends, however its other end died
#
# Both addresses are this system's own, so the kernel would hand packets over itself, where rxe never sees
# them. Rules before the table of local addresses send over the wire what is sent through an interface, as all
# of rxe's is. Older kernels have rxe in the first network namespace only, hence no namespace for each end.
set -euo pipefail

up() {
  # The default of 1000 packets drops the burst that answers a large read.
  echo 20000 >/proc/sys/net/core/netdev_max_backlog
  ip link add va mtu 9000 type veth peer name vb mtu 9000
  for interface in va vb; do
    local settings=/proc/sys/net/ipv4/conf/$interface
    echo 0 >"$settings/rp_filter"
    echo 1 >"$settings/accept_local"
    echo 1 >"$settings/arp_ignore"
    ip link set "$interface" up
  done
  echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
  ip rule add pref 30 lookup local
  ip rule del pref 0
  wire va 10.9.0.1 vb 10.9.0.2 101
  wire vb 10.9.0.2 va 10.9.0.1 102
  rdma link add rxa type rxe netdev va
  rdma link add rxb type rxe netdev vb
  wait_active rxa
  wait_active rxb
}

wire() { # INTERFACE ADDRESS PEER-INTERFACE PEER-ADDRESS TABLE
  ip address add "$2/32" dev "$1"
  ip rule add pref 10 to "$4" oif "$1" lookup "$5"
  ip route add "$4/32" dev "$1" src "$2" scope link table "$5"
  ip neighbour replace "$4" lladdr "$(<"/sys/class/net/$3/address")" dev "$1" nud permanent
}

wait_active() { # DEVICE: until its port is active and has the address that the peer will be reached by
  local port=/sys/class/infiniband/$1/ports/1
  for _ in $(seq 100); do
    if grep -q ACTIVE "$port/state" && grep -qs '0000:ffff:0a09:' "$port"/gids/*; then return; fi
    sleep 0.1
  done
  echo "network.sh: $1 is not active after 10 s: $(cat "$port/state" "$port"/gids/* 2>&1 | head -3)" >&2
  return 1
}

down() {
  ip rule add pref 0 lookup local 2>/dev/null || true
  for preference in 10 10 30; do ip rule del pref "$preference" 2>/dev/null || true; done
  rdma link delete rxa 2>/dev/null || true
  rdma link delete rxb 2>/dev/null || true
  ip link delete va 2>/dev/null || true
}

case ${1:-} in
  up | down) "$1" ;;
  hold)
    trap down EXIT
    trap '' INT TERM HUP
    up
    echo ready
    cat >/dev/null
    ;;
  *)
    echo "usage: network.sh up | down | hold" >&2
    exit 2
    ;;
esac
