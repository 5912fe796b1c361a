"""Values in and out: from Python, numpy, files and other libraries, and back."""
