# tflint --chdir=deploy/tofu
plugin "terraform" {
  enabled = true
  preset  = "all"
}

# Files are named for what is in them; the module has no outputs.
rule "terraform_standard_module_structure" {
  enabled = false
}
