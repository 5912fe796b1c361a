"""Names of other libraries and of older versions: what they mean here, or what to use in their place."""
