"""Guards: a component at run time that makes any other blind to an axis, without training (``README.md`` above)."""
