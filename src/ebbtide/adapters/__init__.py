"""One module for each agent framework. They use the public names of `ebbtide` only, so yours can look the same."""
