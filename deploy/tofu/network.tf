resource "aws_vpc" "fleet" {
  #checkov:skip=CKV2_AWS_11:nodes count what their doors refuse; who wants a record of each flow as well adds aws_flow_log to the module
  cidr_block           = var.network
  enable_dns_support   = true
  enable_dns_hostnames = true
  tags                 = { Name = var.venue }
}

# Nobody uses it: it lets nothing through.
resource "aws_default_security_group" "none" {
  vpc_id = aws_vpc.fleet.id
}

resource "aws_internet_gateway" "fleet" {
  vpc_id = aws_vpc.fleet.id
  tags   = { Name = var.venue }
}

resource "aws_route_table" "fleet" {
  vpc_id = aws_vpc.fleet.id
  tags   = { Name = var.venue }

  route {
    cidr_block = "0.0.0.0/0"
    gateway_id = aws_internet_gateway.fleet.id
  }
}

resource "aws_subnet" "zone" {
  for_each = var.subnets

  vpc_id                  = aws_vpc.fleet.id
  availability_zone       = each.key
  cidr_block              = each.value
  map_public_ip_on_launch = false
  tags                    = { Name = "${var.venue}-${each.key}" }
}

resource "aws_route_table_association" "zone" {
  for_each = aws_subnet.zone

  subnet_id      = each.value.id
  route_table_id = aws_route_table.fleet.id
}

# Close together: what is of one zone is on one bisection of its network.
resource "aws_placement_group" "together" {
  for_each = var.subnets

  name     = "${var.venue}-${each.key}"
  strategy = "cluster"
}

# Roots that share a zone: never two on one rack.
resource "aws_placement_group" "apart" {
  name         = "${var.venue}-apart"
  strategy     = "spread"
  spread_level = "rack"
}

resource "aws_route53_zone" "names" {
  name = var.domain

  vpc {
    vpc_id = aws_vpc.fleet.id
  }
}

# Machines without an address outside reach these services by addresses inside.
resource "aws_vpc_endpoint" "service" {
  for_each = toset(["secretsmanager", "autoscaling", "ssm", "ssmmessages"])

  vpc_id              = aws_vpc.fleet.id
  vpc_endpoint_type   = "Interface"
  service_name        = "com.amazonaws.${data.aws_region.here.region}.${each.key}"
  private_dns_enabled = true
  subnet_ids          = [for subnet in aws_subnet.zone : subnet.id]
  security_group_ids  = [aws_security_group.nodes.id]
}

data "aws_region" "here" {}
data "aws_partition" "here" {}
data "aws_caller_identity" "here" {}
