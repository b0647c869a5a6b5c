"""What came of runs, for people: the live view, tables, the page, pictures, and tools that people already use."""
