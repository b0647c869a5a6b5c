"""Another end: a reader of docs/wire-format.md in plain Python, which uses nothing of fedcode.

It is slow, it trusts what it reads, and it is written from that page alone: if the two of them agree on every golden
file, the page says what must be known. pcodec is used where the page refers to it.
"""
