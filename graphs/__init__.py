"""One graph a method. Each file offers `build(...)`, whose keywords are its operators, and a compiled `graph`."""
