# The image of a fleet's machines: Debian 12 with the package, tuned by the Ansible role, without a venue's files.
#   packer init deploy/packer
#   packer build -var package=target/package/fairbell_0.1.0_amd64.deb deploy/packer

packer {
  required_plugins {
    amazon = {
      source  = "github.com/hashicorp/amazon"
      version = ">= 1.3.0"
    }
    ansible = {
      source  = "github.com/hashicorp/ansible"
      version = ">= 1.1.0"
    }
  }
}

variable "package" {
  description = "The Debian package (scripts/package.py)."
  type        = string
}

variable "region" {
  description = "Where the image is made."
  type        = string
  default     = "eu-central-1"
}

variable "kind" {
  description = "A machine with the card that the fleet's have."
  type        = string
  default     = "c7i.large"
}

source "amazon-ebs" "debian" {
  region        = var.region
  instance_type = var.kind
  ami_name      = "fairbell-{{timestamp}}"
  ssh_username  = "admin"
  ena_support   = true
  encrypt_boot  = true

  source_ami_filter {
    owners      = ["136693071363"]
    most_recent = true

    filters = {
      name                = "debian-12-amd64-*"
      virtualization-type = "hvm"
    }
  }

  metadata_options {
    http_tokens = "required"
  }
}

build {
  sources = ["source.amazon-ebs.debian"]

  # The card's hardware clock (PTP): the driver offers it where it is asked for.
  provisioner "shell" {
    inline = [
      "echo 'options ena phc_enable=1' | sudo tee /etc/modprobe.d/fairbell-ena.conf",
      "sudo apt-get update -qq",
      "sudo apt-get install -y -qq awscli curl"
    ]
  }

  # No node, no doctor: these need the venue's files.
  provisioner "ansible" {
    playbook_file = "${path.root}/../ansible/site.yml"
    host_alias    = "image"
    groups        = ["fairbell"]
    extra_arguments = [
      "--extra-vars", "fairbell_package=${abspath(var.package)} fairbell_start=false fairbell_doctor=false",
      "--extra-vars", "fairbell_clock=chrony fairbell_max_cstate=1 fairbell_clocksource=tsc",
      "--extra-vars", "{\"fairbell_ntp_servers\": [\"169.254.169.123\"]}"
    ]
  }
}
