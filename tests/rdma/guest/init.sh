#!/busybox sh
# The guest's first process: load the modules, mount what the host shares, hand over to start.sh there.
set -e
b=/busybox
$b mkdir -p /proc /sys /shares /root
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
while read -r module; do
  $b insmod "/modules/$module" || echo "rig: module $module was not loaded"
done </modules/order

nine=trans=virtio,version=9p2000.L,msize=512000
share() { # TAG OPTIONS: mount a share of the host, or a disk
  $b mkdir -p "/shares/$1"
  case $1 in
    vd?) $b mount -t ext4 -o ro "/dev/$1" "/shares/$1" ;;
    *) $b mount -t 9p -o "$nine,$2" "$1" "/shares/$1" ;;
  esac
}

root=/root
$b mount -t tmpfs -o mode=755 root $root
for folder in proc sys dev run tmp var/tmp var/lib var/log root control .overlay; do
  $b mkdir -p "$root/$folder"
done
$b chmod 1777 $root/tmp $root/var/tmp
$b ln -s /run $root/var/run
share control cache=none
$b mount -o bind /shares/control $root/control

# A line a mount: the target, then the shares or disks that lie there, the uppermost first. What the guest
# writes goes to its own memory.
while IFS='	' read -r target tags; do
  layers=
  for tag in $tags; do
    share "$tag" ro,cache=loose
    layers=$layers${layers:+:}/shares/$tag
  done
  upper=$root/.overlay/${tags%% *}
  $b mkdir -p "$upper/files" "$upper/work" "$root$target"
  $b mount -t overlay -o "lowerdir=$layers,upperdir=$upper/files,workdir=$upper/work" overlay "$root$target"
done </shares/control/mounts

for link in bin sbin lib lib32 lib64 libx32; do
  [ ! -d "$root/usr/$link" ] || $b ln -s "usr/$link" "$root/$link"
done
for folder in proc sys dev; do
  $b mount -o move /$folder $root/$folder
done
$b mkdir $root/.rig
$b cp /busybox $root/.rig/
exec $b switch_root $root /.rig/busybox sh /control/start.sh </dev/null >/dev/console 2>&1
