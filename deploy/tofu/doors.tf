# Who reaches what: nodes each other, participants the doors of edges and the retransmission servers.

resource "aws_security_group" "nodes" {
  name        = "${var.venue}-nodes"
  description = "Nodes of the venue among themselves"
  vpc_id      = aws_vpc.fleet.id

  ingress {
    description = "nodes among themselves"
    protocol    = "-1"
    from_port   = 0
    to_port     = 0
    self        = true
  }

  egress {
    description = "nodes among themselves"
    protocol    = "-1"
    from_port   = 0
    to_port     = 0
    self        = true
  }

  egress {
    description = "services of the cloud"
    protocol    = "tcp"
    from_port   = 443
    to_port     = 443
    cidr_blocks = ["0.0.0.0/0"]
  }
}

resource "aws_security_group" "edges" {
  name        = "${var.venue}-edges"
  description = "Participants to edges"
  vpc_id      = aws_vpc.fleet.id

  dynamic "ingress" {
    for_each = toset([for port in var.doors : tostring(port)])

    content {
      description = "participants"
      protocol    = "tcp"
      from_port   = tonumber(ingress.key)
      to_port     = tonumber(ingress.key)
      cidr_blocks = var.participants
    }
  }

  egress {
    description = "the feed to participants"
    protocol    = "udp"
    from_port   = 1024
    to_port     = 65535
    cidr_blocks = var.participants
  }
}

resource "aws_security_group" "roots" {
  name        = "${var.venue}-roots"
  description = "Participants to the retransmission servers"
  vpc_id      = aws_vpc.fleet.id

  dynamic "ingress" {
    for_each = toset([for port in var.repair : tostring(port)])

    content {
      description = "participants"
      protocol    = "udp"
      from_port   = tonumber(ingress.key)
      to_port     = tonumber(ingress.key)
      cidr_blocks = var.participants
    }
  }
}
