"""What a device plugin imports: this module and nothing else of tinygraft."""
