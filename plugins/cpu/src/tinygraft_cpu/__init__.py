"""The CPU device of tinygraft: in-process LLVM or the system's C compiler, and a pool of native threads."""
