"""One graph per method. Each file has `build(...)`, whose keywords replace operators, and a compiled `graph`."""
