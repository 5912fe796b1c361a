"""The AMD device of tinygraft: GPUs that ROCm drives, through HIP and its compiler. Experimental."""
