#!/usr/bin/env python3
"""Creates a fleet's stack in moto, an imitation of Amazon's interfaces, and looks at what came of it.

    stack.py TEMPLATE INSTANCES GROUPS [AWS_MACHINE]

INSTANCES and GROUPS: how many there are to be. AWS_MACHINE: the program that starts and stops edges; it is run with an `aws`
that calls moto. Ends with 1 when something is not as it has to be.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

# An imitation: no key opens anything.
os.environ.update(AWS_ACCESS_KEY_ID="none", AWS_SECRET_ACCESS_KEY="none", AWS_DEFAULT_REGION="eu-central-1")

import boto3
from moto import mock_aws

# What moto 5 has no imitation of, and what stands for it: nothing.
LACKS = {"AWS::EC2::PlacementGroup", "AWS::EC2::SecurityGroupEgress", "AWS::SecretsManager::Secret"}


def without(template, kinds):
    """The template without resources of these kinds, and without what refers to them."""
    gone = {name for name, of in template["Resources"].items() if of["Type"] in kinds}

    def clean(value):
        if isinstance(value, dict):
            return {key: clean(of) for key, of in value.items() if not (isinstance(of, dict) and of.get("Ref") in gone)}
        return [clean(of) for of in value] if isinstance(value, list) else value

    resources = {name: clean(of) for name, of in template["Resources"].items() if name not in gone}
    # Of an instance it does not read the launch template, which names the image.
    for of in resources.values():
        if of["Type"] == "AWS::EC2::Instance":
            of["Properties"]["ImageId"] = {"Ref": "Image"}
    return {**template, "Resources": resources}


def create(template):
    stacks = boto3.client("cloudformation")
    image = boto3.client("ec2").describe_images()["Images"][0]["ImageId"]
    stacks.create_stack(StackName="fleet", TemplateBody=json.dumps(template), Capabilities=["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"],
                        Parameters=[{"ParameterKey": "Image", "ParameterValue": image}])
    return stacks.describe_stacks(StackName="fleet")["Stacks"][0]["StackStatus"]


def groups():
    found = boto3.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    return {group["AutoScalingGroupName"]: group for group in found}


def machine(program):
    """The program starts and stops an edge: `aws` writes what it is called with, and that is done in moto."""
    with tempfile.TemporaryDirectory() as folder:
        fake = Path(folder) / "aws"
        fake.write_text(f"#!/bin/sh\necho \"$*\" >> {folder}/calls\n")
        fake.chmod(0o755)
        name = sorted(groups())[-1]
        venue, edge = name.split("-", 1)
        for what, wanted in (("start", 1), ("stop", 0)):
            (Path(folder) / "calls").unlink(missing_ok=True)
            subprocess.run([program, venue, what, edge], check=True, env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
            words = (Path(folder) / "calls").read_text().split()
            assert words[:2] == ["autoscaling", "set-desired-capacity"], words
            options = dict(zip(words[2::2], words[3::2]))
            boto3.client("autoscaling").set_desired_capacity(
                AutoScalingGroupName=options["--auto-scaling-group-name"], DesiredCapacity=int(options["--desired-capacity"]))
            assert groups()[name]["DesiredCapacity"] == wanted, (what, groups()[name])
            assert len(groups()[name]["Instances"]) == wanted, (what, groups()[name]["Instances"])
        wrong = subprocess.run([program, venue, "destroy", edge], capture_output=True)
        assert wrong.returncode == 2, "a word that is none is not refused"
        return name


def main():
    text, instances, wanted = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    template = json.loads(Path(text).read_text(encoding="utf-8"))
    known = without(template, LACKS)
    with mock_aws():
        status = create(known)
        assert status == "CREATE_COMPLETE", status
        made = boto3.client("cloudformation").list_stack_resources(StackName="fleet")["StackResourceSummaries"]
        kinds = [of["ResourceType"] for of in made]
        assert kinds.count("AWS::EC2::Instance") == instances, kinds.count("AWS::EC2::Instance")
        assert len(groups()) == wanted, groups()
        started = sum(group["DesiredCapacity"] for group in groups().values())
        print(f"moto: {len(made)} of {len(template['Resources'])} resources made; {instances} instances, {wanted} groups, {started} of them started")
        if len(sys.argv) > 4:
            print(f"aws-machine: {machine(sys.argv[4])} started and stopped")
    # Control: a name that is nowhere.
    broken = json.loads(json.dumps(known).replace('"Ref": "Network"', '"Ref": "Nowhere"'))
    with mock_aws():
        try:
            assert create(broken) != "CREATE_COMPLETE", "a stack that refers to nothing is made"
        except AssertionError:
            raise
        except Exception as error:
            print(f"control: refused ({type(error).__name__})")


main()
