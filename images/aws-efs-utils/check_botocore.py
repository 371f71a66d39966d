#!/usr/bin/env python3
"""Makes the calls to AWS that efs-utils makes with botocore, to see whether what is installed is enough for them.

check_botocore.py
    Makes the clients, and no call. It is run when the image is built.
check_botocore.py ENDPOINT REGION FILE_SYSTEM ZONE
    Looks for the mount target of a file system in a zone, as a mount does when DNS has no answer: DescribeMountTargets, then
    DescribeAvailabilityZones twice, first as a dry run. Prints the target's IP address.
"""
import sys

import botocore.session
from botocore.exceptions import ClientError


def clients(region, endpoint=None):
    """Returns a client for EFS and one for EC2."""
    session = botocore.session.get_session()
    return [session.create_client(service, region_name=region, endpoint_url=endpoint) for service in ("efs", "ec2")]


def zone_id(ec2, zone):
    """Returns the ID of a zone, which is the same in all accounts; the name is not."""
    try:
        ec2.describe_availability_zones(ZoneNames=[zone], DryRun=True)
    except ClientError as error:
        if error.response["Error"]["Code"] != "DryRunOperation":
            raise
    return ec2.describe_availability_zones(ZoneNames=[zone])["AvailabilityZones"][0]["ZoneId"]


def mount_target(efs, ec2, file_system, zone):
    """Returns the IP address of the mount target in a zone."""
    targets = efs.describe_mount_targets(FileSystemId=file_system)["MountTargets"]
    available = [target for target in targets if target["LifeCycleState"] == "available"]
    wanted = zone_id(ec2, zone)
    for target in available:
        if target["AvailabilityZoneId"] == wanted:
            return target["IpAddress"]
    zones = ", ".join(sorted(target["AvailabilityZoneName"] for target in available)) or "no zone"
    raise LookupError(f"{file_system} has no mount target in {zone} ({wanted}), but in {zones}")


def main(arguments):
    """Runs what the arguments ask for and returns the exit code."""
    if not arguments:
        clients("us-east-1")
        print("botocore", botocore.__version__, "has clients for efs and ec2")
        return 0
    if len(arguments) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    endpoint, region, file_system, zone = arguments
    try:
        print(mount_target(*clients(region, endpoint), file_system, zone))
    except LookupError as error:
        print("error:", error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
