#!/bin/busybox sh
# The first process of the virtual machine: it loads the modules of the kernel, mounts the disk, and becomes the agent.
set -e
export PATH=/bin:/sbin:/usr/sbin
mount -t devtmpfs devtmpfs /dev
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /tmp
mkdir -p /var/run/efs
mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo '+cpu +memory +pids' > /sys/fs/cgroup/cgroup.subtree_control
modprobe -a virtio_pci virtio_blk virtio_console nfsd nfsv4
mount -t ext4 /dev/vda /disk
ip link set lo up
exec agent
