"""From a list of instructions to source, in the words of a language.

Linear to Source (`render/`). A renderer is one walk over the list (`text.py`), filled with the words of a
language: the C family, whose differences are a `Dialect`, or LLVM IR. An UNROLL range is repeated here, in
the text, and nowhere before. Source is meant to be read: named buffers, indentation, a header with the
kernel's name and actions.
"""
