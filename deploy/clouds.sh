# Stages of deploy/check.sh for clouds; it sources this file: each ends the script when something does not hold.
# shellcheck shell=bash

# Files of a venue of ten machines below $1, and what `fairbell cluster provision` writes for Amazon's cloud.
venue_in_the_cloud() {
    have_binary
    rm -rf "$1"
    "$binary" cluster init --name lab --roots 3 --edges 4 --depth 2 --fanout 2 --out "$1/cluster" >/dev/null
    sed -i -E 's/^address = "(.*)"/address = "\1.fairbell.internal"/' "$1/cluster/cluster.toml"
    printf '[scale]\nby = "command"\ncommand = ["/usr/share/fairbell/aws-machine", "lab"]\nleast = 2\n' >>"$1/cluster/cluster.toml"
    sed 's/^participants = .*/participants = ["203.0.113.0\/24"]/' examples/provision.toml >"$1/cluster/provision.toml"
    "$binary" cluster provision --target aws --cluster "$1/cluster/cluster.toml" --out "$1/aws" >/dev/null
}

tools_provision() {
    python 'cfn-lint>=1.40,<2' 'moto[cloudformation,ec2,autoscaling,iam,secretsmanager,route53]>=5.1,<6' 'python-hcl2>=7,<9' 'PyYAML>=6'
}

# What `fairbell cluster provision` writes, tried by those who read it.
check_provision() {
    have_binary
    debian jq jq
    tools_provision
    tools_helm
    local at=$work/provision settings
    venue_in_the_cloud "$at"
    # W3010: availability zones are those that the operator has named for the zones of cluster.toml.
    cfn-lint --non-zero-exit-code warning --ignore-checks W3010 --regions eu-central-1 -- "$at/aws/fleet.cfn.json" ||
        fail "cfn-lint finds something"
    echo "cfn-lint: $(jq '.Resources | length' "$at/aws/fleet.cfn.json") resources, nothing to say"
    # Control: a property that there is not.
    jq '.Resources.Network.Properties.CidrBlocks = "10.0.0.0/8"' "$at/aws/fleet.cfn.json" >"$at/broken.cfn.json"
    refuses cfn-lint --regions eu-central-1 -- "$at/broken.cfn.json"
    grep -q CidrBlocks "$work/refused.log" || fail "cfn-lint: $(cat "$work/refused.log")"
    python3 deploy/aws/stack.py "$at/aws/fleet.cfn.json" 6 4 deploy/aws/aws-machine
    sh -n "$at/aws/keys.sh"
    python3 deploy/tofu/parse.py deploy/tofu deploy/packer "$at/aws/fleet.tfvars.json"
    "$binary" cluster provision --target k8s --cluster "$at/cluster/cluster.toml" --out "$at/k8s" >/dev/null
    sh -n "$at/k8s/install.sh"
    for settings in "$at/k8s/values.json" deploy/helm/fairbell/values.yaml; do
        in_helm template deploy/helm/fairbell "$settings" >/dev/null
    done
    echo "helm template: takes values.json"
    "$binary" cluster provision --target ansible --cluster "$at/cluster/cluster.toml" --out "$at/ansible" >/dev/null
    python3 - "$at/ansible/inventory.yml" <<'P'
import sys
import yaml

hosts = yaml.safe_load(open(sys.argv[1], encoding="utf-8"))["all"]["children"]["fairbell"]["hosts"]
assert len(hosts) == 10 and hosts["edge-4"]["ansible_host"] == "edge-4.fairbell.internal", hosts
print(f"inventory: {len(hosts)} machines")
P
}

# The OpenTofu module: its form, its arguments by the provider's schema, a plan of a whole fleet, rules of tflint and checkov.
check_module() {
    local at=$work/module checkov=("$work/checkov/bin/checkov" --framework terraform --skip-download --compact --quiet) files
    local module=$at/module vars=$at/aws/fleet.tfvars.json
    debian jq jq
    go_tool tofu github.com/opentofu/opentofu@v1.12.6 cmd/tofu
    go_tool tflint github.com/terraform-linters/tflint@v0.64.0 .
    python_in checkov 'checkov>=3.3,<4'
    python_in provider 'grpcio>=1.66,<2' 'cryptography>=43'
    venue_in_the_cloud "$at"
    stand_in_provider
    local -x TF_CLI_CONFIG_FILE=$work/provider/tofu.rc FAIRBELL_AWS_SCHEMA=$work/provider/schema.json
    files=(deploy/tofu/*.tf deploy/tofu/tests/*.hcl deploy/packer/*.hcl)
    in_form "${files[@]}" || fail "tofu fmt has another form"
    echo "tofu fmt: ${#files[@]} files, nothing to say"
    cp -r deploy/tofu "$module"
    in_tofu validate >"$at/validate.log" 2>&1 || fail "tofu validate: $(cat "$at/validate.log")"
    # That the provider is none from a registry is a warning.
    grep -q 'Success!' "$at/validate.log" || fail "tofu validate: $(cat "$at/validate.log")"
    echo "tofu validate: nothing to say"
    # A plan of the whole fleet with the variables that `provision` has written, results of resources made up.
    in_tofu test -var-file="$vars" >"$at/test.log" 2>&1 || fail "tofu test: $(cat "$at/test.log")"
    tail -1 "$at/test.log"
    # All rules of the language but those of a registry's modules.
    tflint --chdir=deploy/tofu --no-color || fail "tflint"
    echo "tflint: nothing to say"
    "${checkov[@]}" --directory deploy/tofu --output cli --output json --output-file-path "console,$at/checkov.json" >"$at/checkov.log" 2>&1 ||
        fail "checkov: $(cat "$at/checkov.log")"
    jq -r '.summary | "checkov: \(.passed) passed, \(.failed) failed, \(.skipped) excepted, each with a reason in the file"' "$at/checkov.json"
    # Controls: another form, an argument that the provider has not, one that is missing, metadata without a token, a variable that
    # nobody uses, disks that are not encrypted.
    changed network.tf 's/^  cidr_block .*/  cidr_block=var.network/'
    refuses in_form "$module/network.tf"
    changed network.tf 's/^  cidr_block .*/  cidr_blocks = var.network/'
    not_in_tofu 'argument named "cidr_blocks" is not expected' validate
    changed network.tf '/^  name = var.domain/d'
    not_in_tofu 'argument "name" is required' validate
    changed network.tf ''
    changed machines.tf 's/http_tokens  .*/http_tokens                 = "optional"/'
    not_in_tofu 'needs a token' test -var-file="$vars"
    changed machines.tf '/encrypted *= true/d'
    refuses "${checkov[@]}" --directory "$module"
    grep -q 'aws_ebs_volume.journal' "$work/refused.log" || fail "checkov: $(cat "$work/refused.log")"
    printf 'variable "nobody" {\n  description = "x"\n  type        = string\n}\n' >>"$module/variables.tf"
    refuses tflint --chdir="$module" --no-color
    grep -q terraform_unused_declarations "$work/refused.log" || fail "tflint: $(cat "$work/refused.log")"
}

in_form() {
    local file
    for file in "$@"; do
        tofu fmt - <"$file" | diff "$file" - || return
    done
}

# OpenTofu in the copy of the module, which can be changed.
in_tofu() {
    tofu -chdir="$work/module/module" "$1" -no-color "${@:2}"
}

# A control: the text $1 is what OpenTofu has against the changed module.
not_in_tofu() {
    refuses in_tofu "${@:2}"
    tr -s '\n \342\224\202\225\267\265' ' ' <"$work/refused.log" | grep -qF "$1" || fail "tofu ${*:2}: $(cat "$work/refused.log")"
}

# The module's file $1, as it is but for an edit by sed, in the copy.
changed() {
    sed "$2" "deploy/tofu/$1" >"$work/module/module/$1"
    [[ -z $2 ]] || ! cmp -s "deploy/tofu/$1" "$work/module/module/$1" || fail "nothing in $1 that '$2' changes"
}

# What stands for the provider, which is in no registry that can be had everywhere: its schema out of an npm package that is made of it, told by
# a program of its own.
stand_in_provider() {
    local at=$work/provider
    if [[ ! -d $at/package ]]; then
        (cd "$at" && tar -xzf "$(npm pack --silent @cdktf/provider-aws@21.22.1)" --wildcards 'package/lib/*/index.d.ts' 'package/lib/*/index-structs/*' &&
            rm -f ./*.tgz)
    fi
    python3 deploy/tofu/schema.py deploy/tofu "$at/package" "$at/schema.json"
    mkdir -p "$at/plugin"
    printf '#!/bin/sh\nexec %s/bin/python %s/deploy/tofu/provider.py\n' "$at" "$PWD" >"$at/plugin/terraform-provider-aws"
    chmod 755 "$at/plugin/terraform-provider-aws"
    printf 'provider_installation {\n  dev_overrides {\n    "hashicorp/aws" = "%s/plugin"\n  }\n  direct {}\n}\n' "$at" >"$at/tofu.rc"
}

# The image's template, by Debian's Packer. That is 1.6, which has these two plugins built in, and knows no block that asks for them
# and none for the metadata service: both are left out.
check_packer() {
    debian packer packer
    # It asks ansible-playbook for its version.
    tools_ansible
    local at=$work/packer
    rm -rf "$at"
    mkdir -p "$at/packer" "$at/ansible"
    sed -e '/^packer {/,/^}/d' -e '/^  metadata_options {/,/^  }/d' deploy/packer/fairbell.pkr.hcl >"$at/packer/fairbell.pkr.hcl"
    cp -r deploy/ansible/. "$at/ansible"
    touch "$at/fairbell.deb"
    # Keys of nobody: nothing is asked of Amazon.
    local -x AWS_ACCESS_KEY_ID=none AWS_SECRET_ACCESS_KEY=none PACKER_CONFIG_DIR=$at CHECKPOINT_DISABLE=1
    packer validate -var "package=$at/fairbell.deb" "$at/packer" || fail "packer validate"
    # Control: an argument that there is not.
    sed -i 's/^  encrypt_boot .*/  encrypt_boots = true/' "$at/packer/fairbell.pkr.hcl"
    refuses packer validate -var "package=$at/fairbell.deb" "$at/packer"
    grep -q encrypt_boots "$work/refused.log" || fail "packer validate: $(cat "$work/refused.log")"
}
