"""Guards: wrappers that make a stage independent of an axis at run time (``docs/reference/rewriting.md``)."""
