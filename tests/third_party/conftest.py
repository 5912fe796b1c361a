"""The packages here are somebody else's: pytest leaves them alone, and a test installs and runs each."""

collect_ignore_glob = ["tinygraft-*"]
