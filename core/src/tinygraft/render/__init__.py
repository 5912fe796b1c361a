"""From a list of instructions to source, in the words of a language.

Linear to Source (`render/`). A renderer is one walk over the list (`text.py`), with methods that write a
language: the C family, whose differences are a `Dialect`, or LLVM IR. An UNROLL range is repeated here, in
the text, and in no pass before. Source is written for readers: named buffers, indentation, a header with the
kernel's name and actions.
"""
