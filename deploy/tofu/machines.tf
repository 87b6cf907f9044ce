locals {
  # Edges are groups of none or one machine; all others are instances.
  groups    = { for name, node in var.nodes : name => node if node.group }
  instances = { for name, node in var.nodes : name => node if !node.group }
  roots     = { for name, node in var.nodes : name => node if node.root }
  # Roots of a zone with more than one.
  shared = { for name, node in local.roots : name => length([for other in local.roots : other if other.zone == node.zone]) > 1 }
}

# A node's files and keys, which its own machine alone may read.
resource "aws_secretsmanager_secret" "keys" {
  #checkov:skip=CKV_AWS_149:the account's own key encrypts it; who may read it is said by roles, a machine's by its own
  #checkov:skip=CKV2_AWS_57:`fairbell cluster issue` and `rotate` make new keys, which Amazon can not
  for_each = var.nodes

  name        = "fairbell/${var.venue}/${each.key}"
  description = "Files and keys of ${each.key}"
}

data "aws_iam_policy_document" "machine" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["ec2.amazonaws.com"]
    }
  }
}

data "aws_iam_policy_document" "node" {
  for_each = var.nodes

  statement {
    actions   = ["secretsmanager:GetSecretValue"]
    resources = [aws_secretsmanager_secret.keys[each.key].arn]
  }

  # An edge enters its own address.
  dynamic "statement" {
    for_each = each.value.group ? [each.value.address] : []

    content {
      actions   = ["route53:ChangeResourceRecordSets"]
      resources = [aws_route53_zone.names.arn]

      condition {
        test     = "ForAllValues:StringEquals"
        variable = "route53:ChangeResourceRecordSetsNormalizedRecordNames"
        values   = [statement.value]
      }
    }
  }

  # The root that leads starts and stops edges.
  dynamic "statement" {
    for_each = each.value.root ? ["groups"] : []

    content {
      actions   = ["autoscaling:SetDesiredCapacity"]
      resources = ["arn:${data.aws_partition.here.partition}:autoscaling:${data.aws_region.here.region}:${data.aws_caller_identity.here.account_id}:autoScalingGroup:*:autoScalingGroupName/${var.venue}-*"]
    }
  }
}

resource "aws_iam_role" "node" {
  for_each = var.nodes

  name_prefix        = "fairbell-${each.key}-"
  assume_role_policy = data.aws_iam_policy_document.machine.json
}

resource "aws_iam_role_policy" "node" {
  for_each = var.nodes

  role   = aws_iam_role.node[each.key].id
  policy = data.aws_iam_policy_document.node[each.key].json
}

resource "aws_iam_role_policy_attachment" "session" {
  for_each = var.nodes

  role       = aws_iam_role.node[each.key].name
  policy_arn = "arn:${data.aws_partition.here.partition}:iam::aws:policy/AmazonSSMManagedInstanceCore"
}

resource "aws_iam_instance_profile" "node" {
  for_each = var.nodes

  name_prefix = "fairbell-${each.key}-"
  role        = aws_iam_role.node[each.key].name
}

resource "aws_launch_template" "node" {
  for_each = var.nodes

  name          = "${var.venue}-${each.key}"
  image_id      = var.image
  instance_type = each.value.kind
  ebs_optimized = true

  user_data = base64encode(templatefile("${path.module}/first-start.sh.tftpl", {
    venue   = var.venue
    node    = each.key
    address = each.value.address
    region  = data.aws_region.here.region
    zone    = aws_route53_zone.names.zone_id
    group   = each.value.group
    disk    = each.value.root ? replace(aws_ebs_volume.journal[each.key].id, "-", "") : ""
  }))

  # One thread a core.
  cpu_options {
    core_count       = each.value.cores
    threads_per_core = 1
  }

  iam_instance_profile {
    arn = aws_iam_instance_profile.node[each.key].arn
  }

  placement {
    group_name = each.value.root && lookup(local.shared, each.key, false) ? aws_placement_group.apart.name : aws_placement_group.together[each.value.zone].name
  }

  network_interfaces {
    device_index                = 0
    associate_public_ip_address = each.value.edge
    subnet_id                   = each.value.group ? null : aws_subnet.zone[each.value.zone].id
    private_ip_address          = each.value.ip
    security_groups = concat(
      [aws_security_group.nodes.id],
      each.value.edge ? [aws_security_group.edges.id] : [],
      each.value.root ? [aws_security_group.roots.id] : []
    )

    dynamic "ena_srd_specification" {
      for_each = var.ena_express ? [true] : []

      content {
        ena_srd_enabled = true

        ena_srd_udp_specification {
          ena_srd_udp_enabled = true
        }
      }
    }
  }

  metadata_options {
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  monitoring {
    enabled = true
  }

  block_device_mappings {
    device_name = "/dev/xvda"

    ebs {
      volume_size = 16
      volume_type = "gp3"
      encrypted   = true
    }
  }
}

resource "aws_instance" "node" {
  #checkov:skip=CKV_AWS_8:its launch template has the disk encrypted
  #checkov:skip=CKV_AWS_126:its launch template has it monitored
  #checkov:skip=CKV_AWS_135:its launch template has it optimized for disks
  #checkov:skip=CKV2_AWS_41:its launch template gives it its role
  for_each = local.instances

  launch_template {
    id      = aws_launch_template.node[each.key].id
    version = aws_launch_template.node[each.key].latest_version
  }

  # As the launch template says, too: the address of the service that gives it its rights needs a token.
  metadata_options {
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  tags = { Name = "${var.venue}-${each.key}" }
}

resource "aws_route53_record" "node" {
  for_each = { for name, node in local.instances : name => node if node.ip == null }

  zone_id = aws_route53_zone.names.zone_id
  name    = each.value.address
  type    = "A"
  ttl     = 10
  records = [aws_instance.node[each.key].private_ip]
}

# It outlives its machine: a root on an empty disk is to be recovered, never started.
resource "aws_ebs_volume" "journal" {
  #checkov:skip=CKV_AWS_189:the account's own key encrypts it; with a key of the venue's, whoever deletes that deletes the log of all roots
  for_each = local.roots

  availability_zone = each.value.zone
  size              = var.journal_gib
  iops              = var.journal_iops
  type              = "gp3"
  encrypted         = true
  tags              = { Name = "${var.venue}-${each.key}-journal" }

  lifecycle {
    prevent_destroy = true
  }
}

resource "aws_volume_attachment" "journal" {
  for_each = local.roots

  device_name = "/dev/sdf"
  volume_id   = aws_ebs_volume.journal[each.key].id
  instance_id = aws_instance.node[each.key].id
}

resource "aws_autoscaling_group" "edge" {
  for_each = local.groups

  name                      = "${var.venue}-${each.key}"
  min_size                  = 0
  max_size                  = 1
  desired_capacity          = each.value.wanted ? 1 : 0
  vpc_zone_identifier       = [aws_subnet.zone[each.value.zone].id]
  health_check_type         = "EC2"
  health_check_grace_period = 300

  launch_template {
    id      = aws_launch_template.node[each.key].id
    version = aws_launch_template.node[each.key].latest_version
  }

  tag {
    key                 = "Name"
    value               = "${var.venue}-${each.key}"
    propagate_at_launch = true
  }

  # `[scale]` of the venue sets it from then on.
  lifecycle {
    ignore_changes = [desired_capacity]
  }
}
