//! A whole fleet in Amazon's cloud: a CloudFormation template, and the variables of the OpenTofu module.
//!
//! Roots, proxies and those that stand by are instances, whose names in a zone that the fleet alone sees follow
//! from the template. Each edge is an Auto Scaling group of none or one instance: so an edge that dies is
//! replaced under its name, and `[scale]` starts and stops it by the group's wanted size. An edge enters its
//! own address when it starts. Each machine may read its own keys and no other machine's.

use std::collections::BTreeMap;

use host::failure::Failure;
use host::fleet::file::{ClusterFile, NodeEntry, NodeRole, Port};
use serde_json::{Map, Value, json};

use super::settings::{Settings, Zone};

/// Resources of a template at most.
const RESOURCES_MAX: usize = 500;
/// Longest user data, bytes: EC2's bound is 16 KiB after base64.
const USER_DATA_MAX: usize = 12_000;

/// A node with what the template needs to know of it.
struct Place<'a> {
    number: u16,
    node: &'a NodeEntry,
    /// Of the settings' zones.
    zone: usize,
    /// Its address, where the file has one.
    ip: Option<&'a str>,
}

impl Place<'_> {
    fn id(&self, what: &str) -> String {
        format!("Node{}{what}", self.number)
    }

    /// Whether it is a group of none or one instance: an edge with a name.
    fn is_group(&self) -> bool {
        self.node.is(NodeRole::Edge) && !self.node.keeps_log() && self.ip.is_none()
    }
}

/// Where all nodes are.
fn places<'a>(file: &'a ClusterFile, settings: &Settings) -> Result<Vec<Place<'a>>, Failure> {
    let wrong = |node: &NodeEntry, why: String| {
        Failure::Usage(format!("{}: {}: {why}", file.path.display(), node.name))
    };
    let aws = &settings.aws;
    let mut places = Vec::new();
    for (number, node) in (1..).zip(&file.nodes) {
        let zone = aws.zone.iter().position(|zone| zone.name == node.zone);
        let zone = zone.ok_or_else(|| no_zone(file, settings, node))?;
        let ip = node.address.parse::<std::net::Ipv4Addr>().is_ok().then_some(&node.address[..]);
        if ip.is_none() && node.address != format!("{}.{}", node.name, aws.domain) {
            let address = &node.address;
            let named = format!("{}.{}", node.name, aws.domain);
            let why =
                format!("address {address:?}: an IPv4 address of its zone's subnet, or {named}");
            return Err(wrong(node, why));
        }
        if !file.scale.by.is_empty() && node.is(NodeRole::Edge) && ip.is_some() {
            let why = format!("edges that come and go have names: {}.{}", node.name, aws.domain);
            return Err(wrong(node, why));
        }
        places.push(Place { number, node, zone, ip });
    }
    Ok(places)
}

/// Why it is not known where in the cloud a node is, and what to write.
fn no_zone(file: &ClusterFile, settings: &Settings, node: &NodeEntry) -> Failure {
    const ENTRY: &str = "[[aws.zone]] with name, az and subnet";
    let (cluster, name) = (file.path.display(), &node.name);
    let beside = file.path.with_file_name(super::SETTINGS);
    let path = settings.path.as_deref().unwrap_or(&beside).display();
    let known = settings.aws.zone.iter().map(|zone| format!("{:?}", zone.name));
    let known = known.collect::<Vec<_>>().join(", ");
    Failure::Usage(match (&settings.path, &node.zone[..]) {
        (None, "") => format!(
            "{path}: is not there: write it (or name another with --settings), with an {ENTRY}, where name is \
             \"\" for {name} and whoever else has no zone in {cluster}"
        ),
        (None, zone) => format!(
            "{path}: is not there: write it (or name another with --settings), with an {ENTRY} for zone \
             {zone:?} of {name} and for each other zone of {cluster}"
        ),
        (Some(_), "") if !known.is_empty() => format!(
            "{cluster}: {name} has no zone: write zone = NAME there, where NAME is of an [[aws.zone]] of \
             {path} ({known})"
        ),
        (Some(_), zone) => format!(
            "{path}: has no zone {zone:?}, which {name} of {cluster} is in: write an {ENTRY} for it"
        ),
    })
}

/// Names of resources that a reference leads to.
fn reference(id: &str) -> Value {
    json!({ "Ref": id })
}

fn attribute(id: &str, of: &str) -> Value {
    json!({ "Fn::GetAtt": [id, of] })
}

fn tags(file: &ClusterFile, name: &str) -> Value {
    json!([{ "Key": "Name", "Value": format!("{}-{name}", file.name) }, { "Key": "fairbell:venue", "Value": file.name }])
}

/// The template.
///
/// # Errors
/// A node that has no place in it; more of them than a template can have.
pub fn template(file: &ClusterFile, settings: &Settings) -> Result<Value, Failure> {
    let places = places(file, settings)?;
    let mut all = Map::new();
    network(file, settings, &places, &mut all);
    doors(file, settings, &mut all);
    for place in &places {
        identity(file, place, &places, &mut all);
        machine(file, settings, place, &places, &mut all)?;
    }
    if all.len() > RESOURCES_MAX {
        let why =
            format!("{} resources are more than the {RESOURCES_MAX} of a template", all.len());
        return Err(Failure::Usage(format!(
            "{}: {why}: use the OpenTofu module",
            file.path.display()
        )));
    }
    Ok(json!({
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": format!("Fairbell venue {}: made by `fairbell cluster provision --target aws`", file.name),
        "Parameters": {
            "Image": { "Type": "AWS::EC2::Image::Id", "Description": "Image that deploy/packer has made" },
        },
        "Resources": all,
        "Outputs": {
            "Network": { "Description": "Network of the fleet", "Value": reference("Network") },
        },
    }))
}

fn network(
    file: &ClusterFile,
    settings: &Settings,
    places: &[Place<'_>],
    all: &mut Map<String, Value>,
) {
    let aws = &settings.aws;
    let mut add = |id: String, kind: &str, properties: Value| {
        all.insert(id, json!({ "Type": kind, "Properties": properties }));
    };
    add(
        "Network".into(),
        "AWS::EC2::VPC",
        json!({
            "CidrBlock": aws.network, "EnableDnsSupport": true, "EnableDnsHostnames": true, "Tags": tags(file, "network"),
        }),
    );
    add("Gateway".into(), "AWS::EC2::InternetGateway", json!({ "Tags": tags(file, "gateway") }));
    add(
        "GatewayOfNetwork".into(),
        "AWS::EC2::VPCGatewayAttachment",
        json!({
            "VpcId": reference("Network"), "InternetGatewayId": reference("Gateway"),
        }),
    );
    add(
        "Routes".into(),
        "AWS::EC2::RouteTable",
        json!({ "VpcId": reference("Network"), "Tags": tags(file, "routes") }),
    );
    all.insert("RouteOut".into(), json!({
        "Type": "AWS::EC2::Route", "DependsOn": "GatewayOfNetwork",
        "Properties": {
            "RouteTableId": reference("Routes"), "DestinationCidrBlock": "0.0.0.0/0", "GatewayId": reference("Gateway"),
        },
    }));
    let mut add = |id: String, kind: &str, properties: Value| {
        all.insert(id, json!({ "Type": kind, "Properties": properties }));
    };
    add(
        "Names".into(),
        "AWS::Route53::HostedZone",
        json!({
            "Name": aws.domain,
            "VPCs": [{ "VPCId": reference("Network"), "VPCRegion": reference("AWS::Region") }],
        }),
    );
    let used: Vec<usize> = places.iter().map(|place| place.zone).collect();
    for (at, Zone { name, az, subnet }) in
        aws.zone.iter().enumerate().filter(|(at, _)| used.contains(at))
    {
        add(
            format!("Subnet{at}"),
            "AWS::EC2::Subnet",
            json!({
                "VpcId": reference("Network"), "CidrBlock": subnet, "AvailabilityZone": az, "MapPublicIpOnLaunch": false,
                "Tags": tags(file, &format!("subnet-{name}")),
            }),
        );
        add(
            format!("RoutesOfSubnet{at}"),
            "AWS::EC2::SubnetRouteTableAssociation",
            json!({
                "SubnetId": reference(&format!("Subnet{at}")), "RouteTableId": reference("Routes"),
            }),
        );
        // Close together: what is of one zone is on one bisection of its network.
        add(
            format!("Together{at}"),
            "AWS::EC2::PlacementGroup",
            json!({ "Strategy": "cluster", "Tags": tags(file, &format!("together-{name}")) }),
        );
    }
    // Roots that share a zone: never two on one rack.
    add(
        "Apart".into(),
        "AWS::EC2::PlacementGroup",
        json!({ "Strategy": "spread", "SpreadLevel": "rack", "Tags": tags(file, "apart") }),
    );
    let subnets: Vec<Value> = (0..aws.zone.len())
        .filter(|at| used.contains(at))
        .map(|at| reference(&format!("Subnet{at}")))
        .collect();
    // Machines without an address outside reach these services by addresses inside.
    for service in ["secretsmanager", "autoscaling", "ssm", "ssmmessages"] {
        let id = format!("Service{}", service.to_uppercase());
        add(
            id,
            "AWS::EC2::VPCEndpoint",
            json!({
                "VpcEndpointType": "Interface", "VpcId": reference("Network"), "PrivateDnsEnabled": true,
                "ServiceName": { "Fn::Sub": format!("com.amazonaws.${{AWS::Region}}.{service}") },
                "SubnetIds": subnets, "SecurityGroupIds": [attribute("Nodes", "GroupId")],
            }),
        );
    }
}

/// Who reaches what: nodes each other, participants the doors of edges and the retransmission servers.
fn doors(file: &ClusterFile, settings: &Settings, all: &mut Map<String, Value>) {
    let mut group = |id: &str, about: &str, ports: &[(&str, Port)]| {
        let number = |node: &NodeEntry, port: Port| file.number(node, port);
        let mut rules: Vec<Value> = Vec::new();
        for (protocol, port) in ports {
            let mut numbers: Vec<u16> = file.nodes.iter().map(|node| number(node, *port)).collect();
            numbers.sort_unstable();
            numbers.dedup();
            for (number, cidr) in numbers
                .iter()
                .flat_map(|of| settings.aws.participants.iter().map(move |to| (of, to)))
            {
                rules.push(json!({
                    "IpProtocol": protocol, "FromPort": number, "ToPort": number, "CidrIp": cidr,
                    "Description": format!("participants: {port:?}"),
                }));
            }
        }
        let mut out = vec![json!({
            "IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "CidrIp": "0.0.0.0/0", "Description": "services of the cloud",
        })];
        out.extend(settings.aws.participants.iter().map(|to| json!({
            "IpProtocol": "udp", "FromPort": 1024, "ToPort": 65535, "CidrIp": to, "Description": "the feed to participants",
        })));
        all.insert(id.to_string(), json!({
            "Type": "AWS::EC2::SecurityGroup",
            "Properties": {
                "GroupDescription": about, "VpcId": reference("Network"), "SecurityGroupIngress": rules,
                "SecurityGroupEgress": out, "Tags": tags(file, &id.to_lowercase()),
            },
        }));
    };
    group("Nodes", "Nodes of the venue among themselves", &[]);
    group(
        "Edges",
        "Participants to edges",
        &[
            ("tcp", Port::Ouch),
            ("tcp", Port::Fix),
            ("tcp", Port::Snapshot),
            ("tcp", Port::Subscriptions),
        ],
    );
    group("Roots", "Participants to the retransmission servers", &[("udp", Port::Retransmission)]);
    for (id, kind, peer) in [
        ("NodesIn", "AWS::EC2::SecurityGroupIngress", "SourceSecurityGroupId"),
        ("NodesOut", "AWS::EC2::SecurityGroupEgress", "DestinationSecurityGroupId"),
    ] {
        all.insert(id.to_string(), json!({
            "Type": kind,
            "Properties": {
                "GroupId": attribute("Nodes", "GroupId"), "IpProtocol": "-1", peer: attribute("Nodes", "GroupId"),
                "Description": "nodes among themselves",
            },
        }));
    }
}

/// A node's keys, and who may read them: its machine.
fn identity(
    file: &ClusterFile,
    place: &Place<'_>,
    places: &[Place<'_>],
    all: &mut Map<String, Value>,
) {
    let name = &place.node.name;
    all.insert(place.id("Keys"), json!({
        "Type": "AWS::SecretsManager::Secret", "DeletionPolicy": "Delete", "UpdateReplacePolicy": "Delete",
        "Properties": {
            "Name": format!("fairbell/{}/{name}", file.name), "Description": format!("Files and keys of {name}"),
            "Tags": tags(file, name),
        },
    }));
    let mut statements = vec![json!({
        "Effect": "Allow", "Action": "secretsmanager:GetSecretValue", "Resource": reference(&place.id("Keys")),
    })];
    if place.is_group() {
        statements.push(json!({
            "Effect": "Allow", "Action": "route53:ChangeResourceRecordSets",
            "Resource": { "Fn::Sub": "arn:${AWS::Partition}:route53:::hostedzone/${Names}" },
            "Condition": { "ForAllValues:StringEquals": {
                "route53:ChangeResourceRecordSetsNormalizedRecordNames": [place.node.address],
                "route53:ChangeResourceRecordSetsRecordTypes": ["A"],
            } },
        }));
    }
    if place.node.is(NodeRole::Root) && places.iter().any(Place::is_group) {
        let groups = format!(
            "arn:${{AWS::Partition}}:autoscaling:${{AWS::Region}}:${{AWS::AccountId}}:autoScalingGroup:*:autoScalingGroupName/{}-*",
            file.name
        );
        statements.push(json!({
            "Effect": "Allow", "Action": "autoscaling:SetDesiredCapacity", "Resource": { "Fn::Sub": groups },
        }));
    }
    all.insert(place.id("Role"), json!({
        "Type": "AWS::IAM::Role",
        "Properties": {
            "AssumeRolePolicyDocument": { "Version": "2012-10-17", "Statement": [{
                "Effect": "Allow", "Action": "sts:AssumeRole", "Principal": { "Service": "ec2.amazonaws.com" },
            }] },
            "ManagedPolicyArns": [{ "Fn::Sub": "arn:${AWS::Partition}:iam::aws:policy/AmazonSSMManagedInstanceCore" }],
            "Policies": [{ "PolicyName": "fairbell", "PolicyDocument": { "Version": "2012-10-17", "Statement": statements } }],
            "Tags": tags(file, name),
        },
    }));
    all.insert(place.id("Profile"), json!({
        "Type": "AWS::IAM::InstanceProfile", "Properties": { "Roles": [reference(&place.id("Role"))] },
    }));
}

fn machine(
    file: &ClusterFile,
    settings: &Settings,
    place: &Place<'_>,
    places: &[Place<'_>],
    all: &mut Map<String, Value>,
) -> Result<(), Failure> {
    let (node, aws) = (place.node, &settings.aws);
    let (kind, is_root) = (settings.machines.of(node), node.keeps_log());
    let (is_edge, subnet) = (node.is(NodeRole::Edge), format!("Subnet{}", place.zone));
    let mut groups = vec![attribute("Nodes", "GroupId")];
    groups.extend(is_edge.then(|| attribute("Edges", "GroupId")));
    groups.extend(is_root.then(|| attribute("Roots", "GroupId")));
    let mut card = json!({
        "DeviceIndex": 0, "Groups": groups, "DeleteOnTermination": true, "AssociatePublicIpAddress": is_edge,
    });
    if aws.ena_express {
        card["EnaSrdSpecification"] = json!({ "EnaSrdEnabled": true, "EnaSrdUdpSpecification": { "EnaSrdUdpEnabled": true } });
    }
    if !place.is_group() {
        card["SubnetId"] = reference(&subnet);
    }
    if let Some(ip) = place.ip {
        card["PrivateIpAddress"] = json!(ip);
    }
    let shared =
        places.iter().filter(|of| of.node.is(NodeRole::Root) && of.zone == place.zone).count() > 1;
    let group = match is_root && shared {
        true => reference("Apart"),
        false => reference(&format!("Together{}", place.zone)),
    };
    let script = user_data(file, place, aws.zone.len());
    if script.len() > USER_DATA_MAX {
        return Err(Failure::Run(format!("{}: user data of {} bytes", node.name, script.len())));
    }
    let data = json!({
        "ImageId": reference("Image"), "InstanceType": kind.kind,
        "CpuOptions": { "CoreCount": kind.cores, "ThreadsPerCore": 1 },
        "IamInstanceProfile": { "Arn": attribute(&place.id("Profile"), "Arn") },
        "NetworkInterfaces": [card], "Placement": { "GroupName": group, "Tenancy": "default" },
        "MetadataOptions": { "HttpTokens": "required", "HttpPutResponseHopLimit": 1 },
        "Monitoring": { "Enabled": true }, "EbsOptimized": true,
        "BlockDeviceMappings": [{ "DeviceName": "/dev/xvda", "Ebs": { "VolumeSize": 16, "VolumeType": "gp3", "Encrypted": true, "DeleteOnTermination": true } }],
        "UserData": { "Fn::Base64": { "Fn::Sub": script } },
        "TagSpecifications": [{ "ResourceType": "instance", "Tags": tags(file, &node.name) }],
    });
    all.insert(
        place.id("Template"),
        json!({
            "Type": "AWS::EC2::LaunchTemplate", "Properties": { "LaunchTemplateData": data },
        }),
    );
    let launch = json!({
        "LaunchTemplateId": reference(&place.id("Template")), "Version": attribute(&place.id("Template"), "LatestVersionNumber"),
    });
    if place.is_group() {
        let edges: Vec<u16> =
            places.iter().filter(|of| of.node.is(NodeRole::Edge)).map(|of| of.number).collect();
        let at = edges.iter().position(|number| *number == place.number).unwrap_or(0);
        let wanted = file.scale.by.is_empty() || at < usize::from(file.scale.least);
        all.insert(place.id("Group"), json!({
            "Type": "AWS::AutoScaling::AutoScalingGroup",
            "Properties": {
                "AutoScalingGroupName": format!("{}-{}", file.name, node.name), "MinSize": "0", "MaxSize": "1",
                "DesiredCapacity": if wanted { "1" } else { "0" }, "VPCZoneIdentifier": [reference(&subnet)],
                "LaunchTemplate": launch, "HealthCheckType": "EC2", "HealthCheckGracePeriod": 300,
                "Tags": [{ "Key": "Name", "Value": format!("{}-{}", file.name, node.name), "PropagateAtLaunch": true }],
            },
        }));
        return Ok(());
    }
    all.insert(place.id("Instance"), json!({
        "Type": "AWS::EC2::Instance", "Properties": { "LaunchTemplate": launch, "Tags": tags(file, &node.name) },
    }));
    if place.ip.is_none() {
        all.insert(place.id("Name"), json!({
            "Type": "AWS::Route53::RecordSet",
            "Properties": {
                "HostedZoneId": reference("Names"), "Name": node.address, "Type": "A", "TTL": "10",
                "ResourceRecords": [attribute(&place.id("Instance"), "PrivateIp")],
            },
        }));
    }
    if is_root {
        // It outlives its machine, and the stack: a root on an empty disk is to be recovered, never started.
        all.insert(place.id("Journal"), json!({
            "Type": "AWS::EC2::Volume", "DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain",
            "Properties": {
                "AvailabilityZone": aws.zone[place.zone].az, "Size": aws.journal_gib, "VolumeType": "gp3",
                "Iops": aws.journal_iops, "Encrypted": true, "Tags": tags(file, &format!("{}-journal", node.name)),
            },
        }));
        all.insert(place.id("JournalThere"), json!({
            "Type": "AWS::EC2::VolumeAttachment",
            "Properties": {
                "InstanceId": reference(&place.id("Instance")), "VolumeId": reference(&place.id("Journal")), "Device": "/dev/sdf",
            },
        }));
    }
    Ok(())
}

/// What a machine does when it starts for the first time: its disk, its files and keys, its name, its node. As
/// `Fn::Sub` reads it: `${AWS::Region}` is the stack's, `${!x}` the shell's.
fn user_data(file: &ClusterFile, place: &Place<'_>, _zones: usize) -> String {
    let (venue, node) = (&file.name, &place.node.name);
    let mut script = String::from("#!/bin/sh\nset -eu\n");
    if place.node.keeps_log() {
        script += &format!(
            "disk=/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_$(echo ${} | tr -d -)\n\
             until [ -e \"$disk\" ]; do sleep 1; done\nblkid \"$disk\" || mkfs.ext4 -q \"$disk\"\n\
             install -d /var/lib/fairbell/{node}\necho \"$disk /var/lib/fairbell/{node} ext4 noatime 0 2\" >> /etc/fstab\n\
             mount /var/lib/fairbell/{node}\nchown fairbell: /var/lib/fairbell/{node}\n",
            format_args!("{{Node{}Journal}}", place.number)
        );
    }
    script += &format!(
        "export AWS_DEFAULT_REGION=${{AWS::Region}}\n\
         until aws secretsmanager get-secret-value --secret-id fairbell/{venue}/{node} --query SecretString --output text \
         > /run/fairbell.keys; do sleep 5; done\nbase64 -d /run/fairbell.keys | tar -xz -C /etc/fairbell\nrm /run/fairbell.keys\n\
         chown -R root:fairbell /etc/fairbell\nchown -R fairbell: /etc/fairbell/keys/{node}\n"
    );
    if place.is_group() {
        let address = &place.node.address;
        script += &format!(
            "token=$(curl -sX PUT http://169.254.169.254/latest/api/token -H 'X-aws-ec2-metadata-token-ttl-seconds: 60')\n\
             ip=$(curl -s http://169.254.169.254/latest/meta-data/local-ipv4 -H \"X-aws-ec2-metadata-token: $token\")\n\
             aws route53 change-resource-record-sets --hosted-zone-id ${{Names}} --change-batch '{{\"Changes\":[{{\"Action\":\"UPSERT\",\
             \"ResourceRecordSet\":{{\"Name\":\"{address}\",\"Type\":\"A\",\"TTL\":10,\"ResourceRecords\":[{{\"Value\":\"'\"$ip\"'\"}}]}}}}]}}'\n"
        );
    }
    script + &format!("systemctl enable --now fairbell-node@{node}\n")
}

/// A script that puts each node's files and keys into its secret.
pub fn keys(file: &ClusterFile) -> String {
    let names: Vec<&str> = file.nodes.iter().map(|node| &node.name[..]).collect();
    format!(
        "#!/bin/sh\n# Made by `fairbell cluster provision --target aws`: files and keys of each node into its secret.\n\
         # keys.sh FOLDER      FOLDER: that of cluster.toml\nset -eu\ncd \"$1\"\nfor node in {}; do\n    \
         tar -cz cluster.toml venue.toml authority.pem \"keys/$node\" | base64 -w 0 > \".secret\"\n    \
         aws secretsmanager put-secret-value --secret-id \"fairbell/{}/$node\" --secret-string file://.secret > /dev/null\n    \
         rm .secret\ndone\n",
        names.join(" "),
        file.name
    )
}

/// Variables of the OpenTofu module: nodes and settings.
///
/// # Errors
/// As [`template`].
pub fn variables(file: &ClusterFile, settings: &Settings) -> Result<Value, Failure> {
    let places = places(file, settings)?;
    let aws = &settings.aws;
    let edges: Vec<u16> =
        places.iter().filter(|of| of.node.is(NodeRole::Edge)).map(|of| of.number).collect();
    let mut nodes = BTreeMap::new();
    for place in &places {
        let (node, kind) = (place.node, settings.machines.of(place.node));
        let at = edges.iter().position(|number| *number == place.number).unwrap_or(0);
        nodes.insert(&node.name, json!({
            "address": node.address, "ip": place.ip, "zone": aws.zone[place.zone].az, "kind": kind.kind, "cores": kind.cores,
            "root": node.keeps_log(), "edge": node.is(NodeRole::Edge), "group": place.is_group(),
            "wanted": file.scale.by.is_empty() || at < usize::from(file.scale.least),
        }));
    }
    let subnets: BTreeMap<&str, &str> =
        aws.zone.iter().map(|zone| (&zone.az[..], &zone.subnet[..])).collect();
    let mut doors: Vec<u16> = Vec::new();
    for port in [Port::Ouch, Port::Fix, Port::Snapshot, Port::Subscriptions] {
        doors.extend(file.nodes.iter().map(|node| file.number(node, port)));
    }
    let mut repair: Vec<u16> =
        file.nodes.iter().map(|node| file.number(node, Port::Retransmission)).collect();
    for numbers in [&mut doors, &mut repair] {
        numbers.sort_unstable();
        numbers.dedup();
    }
    Ok(json!({
        "venue": file.name, "network": aws.network, "domain": aws.domain, "subnets": subnets, "nodes": nodes,
        "participants": aws.participants, "doors": doors, "repair": repair, "ena_express": aws.ena_express,
        "journal_gib": aws.journal_gib, "journal_iops": aws.journal_iops,
    }))
}
