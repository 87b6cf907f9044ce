# A plan of the fleet of ten that deploy/check.sh has `fairbell cluster provision` write, without a cloud:
#   tofu test -var-file fleet.tfvars.json
mock_provider "aws" {
  mock_data "aws_iam_policy_document" {
    defaults = {
      json = "{}"
    }
  }
}

variables {
  image = "ami-00000000000000000"
}

run "machines" {
  command = plan

  assert {
    condition     = length(aws_instance.node) == 6 && length(aws_autoscaling_group.edge) == 4
    error_message = "three roots, two proxies and one that stands by are instances, four edges are groups"
  }

  assert {
    condition     = alltrue([for name, group in aws_autoscaling_group.edge : group.max_size == 1])
    error_message = "an edge is there once"
  }

  assert {
    condition     = alltrue([for template in aws_launch_template.node : template.metadata_options[0].http_tokens == "required"])
    error_message = "the address that gives a machine its rights needs a token"
  }

  assert {
    condition     = length(aws_ebs_volume.journal) == 3 && alltrue([for disk in aws_ebs_volume.journal : disk.encrypted])
    error_message = "each root has a disk of its own, encrypted"
  }
}

run "doors" {
  command = plan

  assert {
    condition = alltrue([
      for rule in aws_security_group.edges.ingress : toset(rule.cidr_blocks) == toset(var.participants) && rule.protocol == "tcp"
    ])
    error_message = "participants alone reach edges' doors"
  }

  assert {
    condition     = length(aws_security_group.edges.ingress) == length(var.doors)
    error_message = "a rule a door"
  }

  assert {
    condition     = aws_security_group.nodes.ingress == null || alltrue([for rule in aws_security_group.nodes.ingress : rule.self])
    error_message = "nobody but nodes reaches nodes"
  }
}

# What a machine is told when it starts: an edge enters its address, a root waits for its disk.
run "first_start" {
  command = plan

  variables {
    participants = []
  }

  assert {
    condition     = length(aws_security_group.edges.egress) == 1
    error_message = "the feed"
  }
}
