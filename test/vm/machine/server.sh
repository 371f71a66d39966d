#!/bin/busybox sh
# "server NAME FOLDER" is an NFS server with a folder as its root, in namespaces of its own, as a file system of EFS is a server of its own. Without a host
# name of its own, the client takes it for one that it knows, and uses that one's connection.
set -e
hostname "$1"
ip link set lo up
mount -t tmpfs tmpfs /var/lib/nfs
mkdir -p /var/lib/nfs/rpc_pipefs
touch /var/lib/nfs/etab /var/lib/nfs/rmtab
mount -t nfsd nfsd /proc/fs/nfsd
mount -t rpc_pipefs rpc_pipefs /var/lib/nfs/rpc_pipefs
# What clients had open is kept on the disk, so that they get it back after a restart. They have ten seconds to ask for it, the least that the kernel takes.
mkdir -p "/disk/clients-$1"
nfsdcld -F -p /var/lib/nfs/rpc_pipefs -s "/disk/clients-$1" &
# Unless it watches already, the kernel starts the server without it.
until grep -qs ^inotify "/proc/$!/fdinfo/"*; do sleep 0.05; done
echo 10 > /proc/fs/nfsd/nfsv4gracetime
echo 10 > /proc/fs/nfsd/nfsv4leasetime
echo 1048576 > /proc/fs/nfsd/max_block_size
exportfs -o rw,no_root_squash,insecure,no_subtree_check,fsid=0 "*:$2"
rpc.mountd -N 2 -N 3
rpc.nfsd -N 3 "${3:-1}"
exec sleep 1000000
