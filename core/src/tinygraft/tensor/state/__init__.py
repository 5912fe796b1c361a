"""What a tensor is besides its node: memory shared with views, who is alive, gradients, devices."""
