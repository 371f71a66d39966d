"""Makes a file system with mount targets in two zones and prints them as JSON. Arguments: endpoint, region."""
import json
import sys

import boto3


def main(endpoint, region):
    account = {"endpoint_url": endpoint, "region_name": region}
    ec2, efs = boto3.client("ec2", **account), boto3.client("efs", **account)
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    file_system = efs.create_file_system(CreationToken="test")["FileSystemId"]
    addresses = {}
    for number, zone in enumerate(("a", "b")):
        subnet = ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{number}.0/24", AvailabilityZone=region + zone)["Subnet"]["SubnetId"]
        target = efs.create_mount_target(FileSystemId=file_system, SubnetId=subnet, IpAddress=f"10.0.{number}.10")
        addresses[region + zone] = target["IpAddress"]
    print(json.dumps({"fileSystem": file_system, "addresses": addresses}))


main(*sys.argv[1:])
