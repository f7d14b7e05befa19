# shellcheck shell=busybox
# The guest's second process, in its final root: finish the system, make the network, run the command.
b=/.rig/busybox
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin
results=$($b cat /control/results-folder)
$b mkdir -p /dev/shm /dev/pts /dev/hugepages "$results"
$b mount -t tmpfs -o mode=1777 shm /dev/shm
$b mount -t devpts pts /dev/pts
$b mount -t hugetlbfs none /dev/hugepages
$b ln -sf /proc/self/fd /dev/fd
$b hostname rdma-guest
ulimit -l unlimited
ulimit -n 65536
ip link set lo up

status=125
if /bin/bash /control/network.sh up; then
  $b cut -d' ' -f1 /proc/uptime >/control/started
  /control/command >/control/output 2>&1 </dev/null
  status=$?
fi
$b cp -r "$results" /control/results
$b sync
echo $status >/control/status.draft
$b mv /control/status.draft /control/status
$b reboot -f
