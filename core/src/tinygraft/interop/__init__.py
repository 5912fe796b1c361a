"""What other libraries have to be told about tensors, one module a library: `import tinygraft.interop.einops`.

Most need nothing: they read a tensor by DLPack or as an array. docs/interop.md has a section for each.
"""
