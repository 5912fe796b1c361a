"""Complex numbers, as a tensor of real parts and one of imaginary parts."""
