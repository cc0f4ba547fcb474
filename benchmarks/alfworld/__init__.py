"""ALFWorld: household tasks in text, in the original simulator."""
