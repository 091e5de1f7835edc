"""Guards: a component at run time that makes any other blind to an axis, without training (``docs/reference/rewriting.md``)."""
