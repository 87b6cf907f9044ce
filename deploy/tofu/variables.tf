# Made by `fairbell cluster provision --target aws`: tofu plan -var-file fleet.tfvars.json -var image=ami-...

variable "image" {
  description = "Image that deploy/packer has made."
  type        = string
}

variable "venue" {
  description = "Name of the venue."
  type        = string
}

variable "network" {
  description = "Addresses of the fleet."
  type        = string
}

variable "domain" {
  description = "Domain of the nodes' names, which only the fleet sees."
  type        = string
}

variable "subnets" {
  description = "Part of the network by availability zone."
  type        = map(string)
}

variable "nodes" {
  description = "Nodes of cluster.toml by name."
  type = map(object({
    address = string
    ip      = optional(string)
    zone    = string
    kind    = string
    cores   = number
    root    = bool
    edge    = bool
    group   = bool
    wanted  = bool
  }))
}

variable "participants" {
  description = "Who may reach edges' doors and retransmission."
  type        = list(string)
}

variable "doors" {
  description = "Ports of edges for participants, TCP."
  type        = list(number)
}

variable "repair" {
  description = "Ports of the retransmission servers, UDP."
  type        = list(number)
}

variable "ena_express" {
  description = "ENA Express for UDP between machines of one zone."
  type        = bool
  default     = false
}

variable "journal_gib" {
  description = "Disk of a root's log, GiB."
  type        = number
}

variable "journal_iops" {
  description = "Writes a second of that disk."
  type        = number
}
